"""What a check of SGLang's linker and its probe in the engine's process (`sglang_probe`) know both."""

FOLDER = "KVTIER_CHECK_PROBE"
WARM, LOOKUPS = 5000, 5000

AFTER_COPIES_BEGAN_S = {f"{us} us after the copies began": us / 1e6 for us in (0, 100, 200, 500, 1000, 2000, 5000)}
POINTS = (
    "before the lookup", "after the lookup", "before the pages are leased", "after the pages are leased", "after the load is announced",
    "before the batch begins", "after the batch began", "before the copies begin", *AFTER_COPIES_BEGAN_S, "before the forward pass waits",
    "after the forward pass waited", "before the batch is finished", "after the batch is finished", "before the pages are stored",
)  # fmt: skip
"""of a load, in their order"""
