"""Written by hand, and kept when docs/benchmarks.md is written anew: what limits a target that is not met, what was tried
and the best that was reached. By what is measured and what stands beside it before the colon, as the table has them; beside
"" is for all that it is held against."""

REMARKS: dict[tuple[str, str], str] = {}
