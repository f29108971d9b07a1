"""Sums of a daemon's counters that must hold."""


def slots_balance(counters: dict[str, int]) -> bool:
    """Whether every slot of memory and SSD is accounted for, and no client holds one."""
    return all(
        counters[f"{tier}_slots_total"]
        == counters[f"{tier}_slots_free"] + counters[f"{tier}_slots_resident"] + counters[f"{tier}_slots_in_flight"]
        for tier in ("host", "ssd")
    ) and (counters["leases"], counters["reservations"], counters["host_slots_in_flight"]) == (0, 0, 0)
