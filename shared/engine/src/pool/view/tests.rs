use super::ResourceState::{Available, Draining, Error};
use super::*;
use crate::pool::testing::{executor, in_state, other, pool, with_tools};

fn need(capabilities: &[&str]) -> Need {
    Need::of(capabilities.iter().copied())
}

fn of_tool(tool: &str, capabilities: &[&str]) -> Need {
    Need {
        tool: Some(tool.to_owned()),
        ..need(capabilities)
    }
}

/// The ids of a candidate, separated by spaces; `-` for none.
fn candidate(view: &PoolView, need: &Need) -> String {
    let ids = view.candidate(need);
    ids.map_or_else(|| "-".to_owned(), |ids| ids.join(" "))
}

/// What is missing, with its counts.
fn missing(view: &PoolView, need: &Need) -> Vec<String> {
    let missing = view.missing(need).into_iter();
    let counted = missing.map(|it| format!("{it}: {}/{}", it.available, it.total));
    counted.collect()
}

#[test]
fn resources_are_counted_by_what_they_do() {
    let view = pool([
        executor("a", 1, &[]),
        executor("b", 0, &[]),
        in_state(Draining, executor("c", 1, &[])),
        in_state(Error, executor("d", 1, &[])),
        other("mcp_server", "m", 1, &[]),
    ]);
    let expected = PoolSummary {
        total: 5,
        available: 2,
        busy: 2,
        error: 1,
    };
    assert_eq!(view.summary(), expected);
    assert_eq!(PoolView::default().summary(), PoolSummary::default());
}

#[test]
fn capabilities_are_in_the_order_of_the_settings_and_then_by_name() {
    let view = pool([
        executor("b", 1, &["zeal", "file_ops", "web_search"]),
        executor("a", 0, &["file_ops", "gpu"]),
        in_state(Error, executor("c", 1, &["file_ops"])),
    ]);
    assert_eq!(view.names(), ["web_search", "file_ops", "gpu", "zeal"]);
    let files = view.row("file_ops", 0);
    assert_eq!((files.available, files.total), (1, 3));
    assert_eq!(files.available_ids, [Arc::<str>::from("b")]);
    assert_eq!(view.row("shell_exec", 0).total, 0);
}

#[test]
fn a_level_is_enough_if_it_is_as_high() {
    let view = pool([executor("a", 1, &["gpu=3"]), executor("b", 2, &["gpu=5"])]);
    for (text, expected) in [
        ("gpu", "b"),
        ("gpu>=3", "b"),
        ("gpu>=5", "b"),
        ("gpu>=6", "-"),
    ] {
        assert_eq!(candidate(&view, &need(&[text])), expected, "{text}");
    }
    let view = pool([executor("a", 9, &["gpu=3"]), executor("b", 2, &["gpu=5"])]);
    assert_eq!(candidate(&view, &need(&["gpu>=3"])), "a");
    assert_eq!(candidate(&view, &need(&["gpu>=4"])), "b");
}

#[test]
fn the_executor_with_most_free_slots_is_the_candidate() {
    let view = pool([
        executor("a", 3, &[]),
        executor("b", 5, &[]),
        executor("c", 4, &[]),
    ]);
    assert_eq!(candidate(&view, &need(&[])), "b");
    let equal = pool([
        executor("a", 3, &[]),
        executor("b", 3, &[]),
        executor("c", 1, &[]),
    ]);
    assert_eq!(candidate(&equal, &need(&[])), "b", "the last of equal ones");
    assert_eq!(candidate(&PoolView::default(), &need(&[])), "-");
}

#[test]
fn only_an_executor_that_takes_work_is_a_candidate() {
    let view = pool([
        executor("a", 1, &["file_ops"]),
        executor("b", 0, &["file_ops"]),
        in_state(Draining, executor("c", 8, &["file_ops"])),
        in_state(Error, executor("d", 9, &["file_ops"])),
        in_state(Available, executor("e", 0, &["file_ops"])),
        executor("f", 7, &["web_search"]),
        other("mcp_server", "m", 9, &["file_ops"]),
        other("worker", "w", 9, &["file_ops"]),
    ]);
    // Registered resources give an executor what it lacks, so the one with most free slots is `f`.
    assert_eq!(candidate(&view, &need(&["file_ops"])), "f w");
    assert_eq!(candidate(&view, &need(&["web_search"])), "f");
}

#[test]
fn an_executor_that_may_not_use_the_tool_is_no_candidate() {
    let view = pool([
        with_tools("read_*", executor("a", 1, &[])),
        with_tools("write_*", executor("b", 5, &[])),
    ]);
    assert_eq!(candidate(&view, &of_tool("read_file", &[])), "a");
    assert_eq!(candidate(&view, &of_tool("write_file", &[])), "b");
    assert_eq!(candidate(&view, &of_tool("shell_exec", &[])), "-");
}

#[test]
fn registered_resources_give_what_the_executor_lacks() {
    let view = pool([
        executor("e", 1, &["file_ops"]),
        other("gpu", "gpu-1", 1, &["gpu", "cuda=2"]),
        other("gpu", "gpu-2", 2, &["gpu"]),
        other("site", "eu", 9, &["region:eu"]),
        other("mcp_server", "m", 9, &["mail"]),
    ]);
    let cases: [(&[&str], &str); 7] = [
        (&["file_ops"], "e"),
        (&["gpu"], "e gpu-2"),
        (&["gpu", "region:eu", "file_ops"], "e gpu-2 eu"),
        (&["cuda>=2"], "e gpu-1"),
        (&["cuda>=3"], "-"),
        // One resource for each capability, although another has both.
        (&["cuda", "gpu"], "e gpu-1 gpu-2"),
        (&["mail"], "-"),
    ];
    for (needed, expected) in cases {
        assert_eq!(candidate(&view, &need(needed)), expected, "{needed:?}");
    }
    let one = pool([
        executor("e", 1, &[]),
        other("gpu", "gpu-1", 3, &["gpu", "cuda"]),
        other("gpu", "gpu-2", 3, &["gpu"]),
        other("gpu", "gpu-3", 3, &["gpu", "cuda"]),
    ]);
    assert_eq!(
        candidate(&one, &need(&["gpu", "cuda"])),
        "e gpu-3",
        "one gives several"
    );
}

#[test]
fn an_executor_that_has_the_capability_itself_takes_no_further_slot() {
    let view = pool([
        executor("a", 1, &["gpu"]),
        executor("b", 1, &[]),
        other("gpu", "g", 1, &["gpu"]),
    ]);
    assert_eq!(
        candidate(&view, &need(&["gpu"])),
        "b g",
        "the last of equal ones"
    );
    let view = pool([executor("a", 2, &["gpu"]), executor("b", 1, &[])]);
    assert_eq!(candidate(&view, &need(&["gpu"])), "a");
}

#[test]
fn what_is_missing_is_named_with_its_counts() {
    let view = pool([
        executor("a", 1, &["file_ops"]),
        executor("b", 0, &["web_search"]),
        in_state(Error, executor("c", 0, &["web_search"])),
        other("mcp_server", "m", 1, &["web_search", "mail"]),
    ]);
    assert_eq!(missing(&view, &need(&["file_ops"])), Vec::<String>::new());
    let needed = need(&["web_search", "gpu>=3", "file_ops", "mail"]);
    let expected = ["gpu>=3: 0/0", "mail: 0/0", "web_search: 0/2"];
    assert_eq!(missing(&view, &needed), expected);
    let tools = view.missing(&need(&["web_search"])).remove(0).tools;
    assert_eq!(tools, ["web_search"], "what would give it");
    assert!(view.missing(&need(&["gpu"]))[0].tools.is_empty());
}

#[test]
fn a_tool_is_missing_if_no_executor_may_use_it() {
    let view = pool([with_tools("read_*", executor("a", 0, &[]))]);
    assert_eq!(
        missing(&view, &of_tool("write_file", &[])),
        ["tool write_file: 0/0"]
    );
    assert!(
        view.missing(&of_tool("read_file", &[])).is_empty(),
        "it is taken only"
    );
}

/// Each is free, but an attempt needs both of one executor.
#[test]
fn capabilities_that_no_executor_has_together_are_missing_together() {
    let view = pool([
        executor("a", 1, &["file_ops"]),
        executor("b", 1, &["web_search"]),
    ]);
    let needed = need(&["web_search", "file_ops"]);
    assert_eq!(candidate(&view, &needed), "-");
    let expected = ["file_ops: 0/0", "web_search: 0/0"];
    assert_eq!(missing(&view, &needed), expected);
    // One that is taken does not hide that they are never together.
    let view = pool([
        executor("a", 0, &["file_ops"]),
        executor("b", 1, &["web_search"]),
    ]);
    assert_eq!(missing(&view, &needed), expected);
}

#[test]
fn only_resources_that_can_serve_the_whole_need_count_if_each_capability_is_free() {
    let view = pool([
        executor("a", 1, &["file_ops"]),
        executor("b", 1, &["web_search"]),
        executor("c", 0, &["file_ops", "web_search"]),
    ]);
    let needed = need(&["web_search", "file_ops"]);
    assert_eq!(
        missing(&view, &needed),
        ["file_ops: 0/1", "web_search: 0/1"]
    );
    // Of registered resources all count that can give what an executor lacks.
    let view = pool([
        with_tools("read_*", executor("a", 0, &[])),
        with_tools("write_*", executor("b", 1, &[])),
        other("gpu", "gpu-1", 1, &["gpu"]),
        other("gpu", "gpu-2", 0, &["gpu"]),
    ]);
    let needed = of_tool("read_file", &["gpu"]);
    assert_eq!(missing(&view, &needed), ["gpu: 0/2"]);
}

#[test]
fn an_executor_that_may_not_use_the_tool_does_not_count_for_its_capability() {
    let view = pool([
        with_tools("read_*", executor("a", 1, &["gpu"])),
        with_tools("write_*", executor("b", 1, &[])),
    ]);
    let needed = of_tool("write_file", &["gpu"]);
    let expected = ["tool write_file: 0/0", "gpu: 0/0"];
    assert_eq!(missing(&view, &needed), expected);
}

/// MCP servers take no attempts.
#[test]
fn what_only_a_server_has_is_shown_and_no_plan_may_name_it() {
    let view = pool([
        executor("a", 0, &["file_ops"]),
        other("gpu", "g", 1, &["gpu"]),
        other("mcp_server", "m", 1, &["file_ops", "mail"]),
    ]);
    assert_eq!(view.names(), ["file_ops", "gpu"]);
    let shown = view.capabilities().into_iter();
    let shown: Vec<_> = shown.map(|row| (row.name, row.total)).collect();
    let row = |name: &str, total| (name.to_owned(), total);
    assert_eq!(shown, [row("file_ops", 2), row("gpu", 1), row("mail", 1)]);
}
