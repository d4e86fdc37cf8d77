"""Totals between peers, masked and without a coordinator: state machines without I/O, in which time is an argument.

| module       | holds                                                                                    |
|--------------|------------------------------------------------------------------------------------------|
| `names`      | digests that name a total: nothing that two members could see differently is left out     |
| `masks`      | mask keys, masks that cancel in the sum, maxima as sums of random words                   |
| `statements` | what members sign: their status, of which everybody passes the newest on                  |
| `views`      | numbered lists of members and data, majorities, where a fit begins                        |
| `memory`     | what a member is told before it starts, and what it keeps on disk                         |
| `flood`      | the grow-only set of signed contributions                                                 |
| `agreement`  | how members come to be in one view                                                        |
| `machine`    | one member: contributions, totals, votes                                                  |
| `fit`        | a fit as a program that asks for totals, which a member that was away repeats             |
| `messages`   | all of it as bytes                                                                        |
| `signatures` | signatures by the keys of certificates                                                    |

**What holds**, whatever is lost, copied, delayed or restored from a backup, as long as members sign what they did:

- Every total is the exact sum over its view: contributions are signed for one name, and the name holds number, attempt,
  view, mask keys, and the request with a digest of all totals before it.
- Nobody can read a contribution: a stream of a mask depends on a key that one process start holds in memory, and this
  process freezes its bytes for every name.
- No two totals are made at one point for two sets of members or data. A fit belongs to one set; a question of one fit
  is never answered in another; a new fit begins at a drawn start, which belongs to one set, unless all members' records
  say that it need not. The record of a site names the set of its last contribution and the start of that fit; who takes
  up a fit with a drawn start records that at once. A fit from zero is gone on with only if no record speaks against it.
- No two models are final. Views are the ballots of Paxos, the vote for a model is its acceptance: a view takes over the
  latest vote among its members, and any view shares a member that remembers with any majority of votes.

**Views** need the yes of all their members. More than half of the members that count must be in a view and remember,
that is, have been in a view since their process began; or all that count are in it. A process that was restarted,
perhaps from an old backup or a cloned disk, may have forgotten a vote, so it counts again only after the others have
told it, and where they tell of a vote, only after it has voted for that model itself. A late member counts for
everybody who has said yes to a view with it, so any later view counts it too; one is taken in at a time.

**The limit**: at any time more than half of the members that count must know all they have ever said, from memory or
from their own newest disk. Everybody may lose its disk, one after another, each being told by the others in between.
If more than half do so at once, two models can be final, and no rule helps. Let three of five vote while two are cut
off, and then be restored to disks from before. All five disks are now those of another history, in which nobody voted
and all were merely switched off and on; there these five have to make a model, so here they make a second one
(`tests/federation/totals/test_forgetting.py`). To count all who were restarted as if they remembered would need one
restored disk only. Not to count them costs this: if more than half were restarted and one that counts is missing, the
others wait for it.

**A member that is behind** takes totals, not contributions, from others, checked by the digest that members have
signed, and repeats its program on them. With the same members and data a view goes on with the same fit at the same
point.
"""

from glmesh.federation.totals.bundles import Bundle
from glmesh.federation.totals.fit import Beginning, Program, Refusal, Runner, Unequal, WantedTotal
from glmesh.federation.totals.machine import Machine
from glmesh.federation.totals.memory import FederationInfo, MemberMemory

__all__ = [
    "Beginning",
    "Bundle",
    "FederationInfo",
    "Machine",
    "MemberMemory",
    "Program",
    "Refusal",
    "Runner",
    "Unequal",
    "WantedTotal",
]
