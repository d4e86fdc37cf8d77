"""Threads that share calls: results in order, and the first error once all calls are over."""

import pytest

from glmesh.parallel import ThreadPool


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
@pytest.mark.parametrize("calls", [0, 1, 2, 3, 7])
def test_a_map_returns_what_the_builtin_does(n_jobs: int, calls: int) -> None:
    threads = ThreadPool(n_jobs)
    found = list(threads.map(lambda a, b: (a, b), range(calls), "abcdefghi"))
    threads.close()
    assert found == list(zip(range(calls), "abcdefghi", strict=False))


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_map_raises_an_error_once_all_calls_are_over(wrong: int) -> None:
    threads, made = ThreadPool(3), []

    def call(number: int) -> None:
        made.append(number)
        if number == wrong:
            raise ValueError(number)

    with pytest.raises(ValueError, match=str(wrong)):
        list(threads.map(call, range(3)))
    threads.close()
    assert sorted(made) == [0, 1, 2]
