"""Kinds of file that are no data file of text, known by their first bytes whatever their name says."""

# first bytes, what the file is, what would do
_SIGNATURES: tuple[tuple[bytes, str, str], ...] = (
    (b"\x1f\x8b", "gzip data", "let its name end in .gz, as in data.csv.gz"),
    (b"BZh", "bzip2 data", "let its name end in .bz2, as in data.csv.bz2"),
    (b"\xfd7zXZ\x00", "xz data", "let its name end in .xz, as in data.csv.xz"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data", "unpack it first (`unzstd`)"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first"),
    (b"PAR1", "a Parquet file", "let its name end in .parquet"),
    (b"ARROW1", "a Feather (Arrow) file", "let its name end in .feather"),
    (b"FEA1", "a Feather file of version 1", "write it again as version 2, or as .parquet"),
    (b"\x93NUMPY", "one NumPy array (.npy)", "write X and y with numpy.savez(name, X=X, y=y), and name it .npz"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel workbook (.xls)", "save it as 'CSV UTF-8' in Excel"),
    (b"\0" * 12 + b"\xc2\xea\x81\x60", "a SAS data set (.sas7bdat)", "write it as CSV in SAS (proc export)"),
    (b"HEADER RECORD*******", "a SAS transport file (.xpt)", "write it as CSV in SAS (proc export)"),
    (b"<stata_dta>", "a Stata data set (.dta)", "write it as CSV in Stata (export delimited)"),
    (b"$FL2", "an SPSS data set (.sav)", "save it as CSV in SPSS"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "write its table as .csv or .parquet"),
    (b"SQLite format 3\0", "an SQLite database", "write the table as CSV (`sqlite3 -header -csv`)"),
    (b"RDX", "R data (.RData)", "write it in R with write.csv(data, file, row.names = FALSE)"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture", "give the file with the numbers"),
    (b"\xff\xd8\xff", "a JPEG picture", "give the file with the numbers"),
    (b"%PDF", "a PDF document", "give the file with the numbers"),
    (b"\x7fELF", "a program", "give the file with the numbers"),
    (b"<!doctype html", "a web page", "download the file itself; perhaps a login is needed"),
    (b"<html", "a web page", "download the file itself; perhaps a login is needed"),
    (b"<?xml", "an XML document", "write its table as .csv"),
    (b'{"', "a JSON document", "write its table as .csv"),
    (b'[{"', "a JSON document", "write its table as .csv"),
)
# what is in a zip archive: bytes near its beginning, as above
_ZIPPED: tuple[tuple[bytes, str, str], ...] = (
    (b"[Content_Types].xml", "an Excel workbook (.xlsx)", "save it as 'CSV UTF-8' in Excel"),
    (b"_rels/", "an Excel workbook (.xlsx)", "save it as 'CSV UTF-8' in Excel"),
    (b"xl/", "an Excel workbook (.xlsx)", "save it as 'CSV UTF-8' in Excel"),
    (b"opendocument", "an OpenDocument table (.ods)", "save it as CSV"),
    (b".npy", "a NumPy archive (.npz)", "let its name end in .npz"),
    (b"", "a zip archive", "unpack it first"),
)
LOOKED_AT = 512  # [bytes] of a file's beginning that tell what it is


def foreign(head: bytes) -> tuple[str, str] | None:
    """Return (what the file is, remedy) for the first LOOKED_AT bytes of a file; None for text or unknown bytes."""
    if head.startswith(b"PK\x03\x04"):
        return next((what, remedy) for mark, what, remedy in _ZIPPED if mark in head)
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "a Python pickle", "write its table with data.to_csv(name, index=False); pickles are never opened"
    low = head.lstrip().lower()
    for mark, what, remedy in _SIGNATURES:
        if head.startswith(mark) or (mark[:1] in b"<[{" and low.startswith(mark)):
            return what, remedy
    return None
