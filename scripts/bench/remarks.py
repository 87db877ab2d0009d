"""Written by hand, and kept when docs/benchmarks.md is written anew: what limits a target that is not met, what was tried
and the best that was reached. By what is measured and what it is held against, as the table has them."""

REMARKS: dict[tuple[str, str], str] = {}
