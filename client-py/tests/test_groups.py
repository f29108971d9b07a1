"""How much of a sequence can be restored, beside a definition that looks at each token."""

import random

import pytest
from kvtier_testing.daemon import Daemon, eventually

from kvtier import Client, InvalidArgument, Lookup, Status
from kvtier._connection import namespace_properties
from kvtier.engine.groups import ALL, LAST, Need, Rule, chunk, longest, restorable, window


def needed_tokens(rule: Rule, tokens: int) -> set[int]:
    """By the definitions of the rules, token for token."""
    kind, _, number = rule.text.partition(" ")
    if kind == "all":
        return set(range(tokens))
    if kind == "last":
        return {tokens - 1}
    if kind == "window":
        # What the next token sees beside itself.
        return {at for at in range(tokens) if tokens - at < int(number)}
    return {at for at in range(tokens) if at // int(number) == tokens // int(number)}


def test_lengths_are_those_at_which_every_group_has_what_its_rule_names() -> None:
    chosen = random.Random(41)
    several = 0
    for _ in range(3_000):
        unit = 8
        needs = [
            Need(chosen.choice([1, 2, 4, 8]), chosen.choice([ALL, LAST, window(chosen.randrange(1, 40)), chunk(chosen.choice([8, 16, 24]))]))
            for _ in range(chosen.randrange(1, 4))
        ]
        present = [[chosen.random() < 0.9 for _ in range(chosen.randrange(0, 64 // need.block_tokens))] for need in needs]
        had = unit * chosen.choice([0, 0, 1, 3])
        expected = []
        for tokens in range(unit, 80, unit):
            blocks = [
                {token // need.block_tokens for token in needed_tokens(need.rule, tokens) if token >= had} for need in needs
            ]
            if tokens > had and all(
                all(block < len(there) and there[block] for block in wanted) for wanted, there in zip(blocks, present, strict=True)
            ):  # fmt: skip
                expected.append(tokens)
        # Where nothing is needed, a length ends with the longest group.
        end = max((need.block_tokens * len(there) for need, there in zip(needs, present, strict=True)), default=0)
        expected = [tokens for tokens in expected if tokens <= end]
        assert restorable(needs, present, unit, had) == expected, (needs, present, had)
        assert longest(needs, [bytes(map(int, there)) for there in present], unit, had) == max(expected, default=had)
        several += len(expected) > 1
    assert several > 300


def test_window_needs_its_last_tokens_only_and_full_attention_all() -> None:
    needs = [Need(4, ALL), Need(4, window(9))]
    whole = [True] * 6
    assert restorable(needs, [whole, [False, False, False, True, True, False]], 4) == [20]
    assert restorable(needs, [[True, False, True, True, True, True], whole], 4) == [4]


def test_state_is_needed_where_the_length_ends() -> None:
    assert restorable([Need(8, LAST)], [[False, True, False, True]], 8) == [16, 32]


def test_what_the_engine_has_is_not_needed_again() -> None:
    needs = [Need(4, ALL), Need(4, window(9))]
    assert restorable(needs, [[False, False, True, True], [False, False, True, True]], 4, had_tokens=8) == [12, 16]


def test_length_is_not_longer_than_what_is_asked_for() -> None:
    assert restorable([Need(4, ALL)], [[True] * 5], 4, most_tokens=15) == [4, 8, 12]


@pytest.mark.parametrize(
    ("needs", "present", "unit", "had", "words"),
    [
        ([], [], 4, 0, "there are 0 groups"),
        ([Need(4, ALL)], [], 4, 0, "there are 1 groups, and blocks of 0"),
        ([Need(4, ALL)], [[True]], 6, 0, "unit_tokens is 6; expected a multiple of the group's block of 4 tokens"),
        ([Need(4, ALL)], [[True]], 4, 2, "had_tokens is 2; expected a multiple"),
    ],
)  # fmt: skip
def test_groups_that_do_not_fit_are_refused(needs: list[Need], present: list[list[bool]], unit: int, had: int, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        restorable(needs, present, unit, had)


def test_window_of_no_token_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="window is 0 tokens; expected 1 or more"):
        window(0)


# ---- one lookup of several groups ----


def test_lookupOfSeveralGroups_answersForEachAsALookupOfItsOwn(daemon: Daemon, client: Client) -> None:
    chosen = random.Random(7)
    namespaces = [client.namespace(f"group-{group}", block_bytes=512 << group) for group in range(3)]
    keys = [f"key {at}".encode().ljust(16) for at in range(900)]
    for group, namespace in enumerate(namespaces):
        some = [key for key in keys if chosen.random() < 0.9]
        namespace.put(some, bytes(len(some) * (512 << group)))
    asked = [(namespaces[0], keys), (namespaces[1], keys[::2]), (namespaces[2], keys), (namespaces[0], [])]
    requests = client.counters()["requests"]
    answers = client.lookup_groups(asked)
    # 2,250 keys: as many requests as keys fit into.
    assert client.counters()["requests"] == requests + 2
    for (namespace, some), answer in zip(asked, answers, strict=True):
        single = namespace.lookup(some) if some else Lookup.of_status(Status.OK, 0)
        assert (answer.run, answer.statuses, answer.tiers) == (single.run, single.statuses, single.tiers)
        assert list(answer.present) == [status is Status.OK for status in answer.statuses]
        assert answer.are_in_memory(range(answer.run))
    counters = client.counters()
    assert counters["lookup_blocks"] == 2 * sum(len(some) for _, some in asked)


def test_lookupOfSeveralGroups_afterARestart_registersAllNamespacesAgain(stopped_daemon: Daemon) -> None:
    stopped_daemon.start()
    with Client(stopped_daemon.socket_path, timeout=20) as client:
        namespaces = [client.namespace(f"again-{group}", block_bytes=512) for group in range(2)]
        assert client.lookup_groups([(namespaces[0], [b"a"]), (namespaces[1], [b"a"])])[1].statuses == [Status.MISS]
        stopped_daemon.stop()
        assert client.lookup_groups([(namespaces[0], [b"a"]), (namespaces[1], [b"b", b"c"])], timeout=0.2)[1].statuses == [Status.UNAVAILABLE] * 2
        stopped_daemon.start()
        assert eventually(lambda: client.lookup_groups([(namespaces[0], [b"a"]), (namespaces[1], [b"a"])])[1].statuses == [Status.MISS])


def test_lookupOfSeveralGroups_namespaceWithOtherProperties_isRefusedByItself(daemon: Daemon, client: Client) -> None:
    namespace = client.namespace("refused", block_bytes=512)
    namespace.put([b"a"], bytes(512))
    with Client(daemon.socket_path, timeout=20) as other:
        fine = other.namespace("fine", block_bytes=512)
        fine.put([b"a"], bytes(512))
        refused = fine.__class__(other, namespace_properties("refused", 1024, {}))
        answers = other.lookup_groups([(refused, [b"a"]), (fine, [b"a"])])
    assert [answer.statuses for answer in answers] == [[Status.NAMESPACE_MISMATCH], [Status.OK]]
