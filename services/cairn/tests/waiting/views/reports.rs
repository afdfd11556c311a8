//! The reports of both runs, written by hand but for times.

use super::scene::Scene;

const FIRST: &str = "\
# Report

- Run: 1
- Status: completed
- Steps: 3 of 3 completed
- Tool turns: 9, tool calls: 12
- Tokens: 5500 in, 270 out; cost: $0.0175
- Time: <times>

## Goal

Count the stores under docs.

## Answer

Two lines name Redis: docs/one.md:2 and docs/two.md:3.

## Plan

1. ✓ Survey (done)
2. ✓ Find (done)
3. ✓ Tell (done)

## Step 1: Survey

Status: done, in <time>. Tool turns: 6, tokens: 2860, cost: $0.0075.

**Summary**

docs holds two files.

**Tool calls**

1. `step` `{\"plan\":[\"List the files\",\"Read the first\"],\"focus\":\"List the files\"}` → `sub-goals added: 2; in focus: List the files`
2. `list_files` `{\"path\":\"docs\"}` → `docs/one.md 38 3 text (+2 lines)`
3. `read_file` `{\"path\":\"nowhere.md\"}` → **failed** (ExecutionFailed): `ExecutionFailed: there is no 'nowhere.md' in the workspace; list_files shows what there is`
4. `step` `{\"complete\":true,\"summary\":\"Two files.\",\"focus\":\"Read the first\"}` → `sub-goal completed; in focus: Read the first`
5. `read_file` `{\"path\":\"docs/one.md\",\"from_line\":1,\"to_line\":2}` → `docs/one.md lines 1-2 of 3 (+2 lines)`
6. `scratchpad` `{\"text\":\"docs/one.md names Redis\"}` → `notes: 23 bytes`
7. `session_memory_set` `{\"key\":\"seen\",\"value\":\"docs/one.md\"}` → `'seen' is set`
8. `step` `{\"complete\":true,\"summary\":\"One mention.\"}` → `sub-goal completed`
9. `step` `{\"complete\":true,\"summary\":\"docs holds two files.\"}` → `step completed`

## Step 2: Find

Status: done, in <time>.

**Summary**

docs/one.md:2: Redis is a store. (+2 lines)

**Tool calls**

1. `search_files` `{\"path\":\"docs\",\"pattern\":\"Redis\"}` → `docs/one.md:2: Redis is a store. (+2 lines)`

## Step 3: Tell

Status: done, in <time>. Tool turns: 3, tokens: 2790, cost: $0.0090.

**Summary**

Two lines name Redis: docs/one.md:2 and docs/two.md:3.

**Tool calls**

1. `record` `{\"what\":\"two mentions\"}` → `recorded {\"what\":\"two mentions\"}`
2. `step` `{\"complete\":true,\"summary\":\"Two lines name Redis: docs/one.md:2 and docs/two.md:3.\"}` → `step completed`

## Failures

- Step 1, `read_file`: `ExecutionFailed: there is no 'nowhere.md' in the workspace; list_files shows what there is`

## Usage

| | model calls | tokens in | tokens out | cost |
|---|---:|---:|---:|---:|
| Planning (<time>) | 1 | 100 | 20 | $0.0010 |
| Step 1 | 6 | 2700 | 160 | $0.0075 |
| Step 3 | 3 | 2700 | 90 | $0.0090 |
| Total | 10 | 5500 | 270 | $0.0175 |
";

const SECOND: &str = "\
# Report

- Run: 2
- Status: failed
- Steps: 1 of 3 completed
- Tool turns: 0, tool calls: 2
- Tokens: 0 in, 0 out; cost: $0.0000
- Time: <times>

## Goal

(none)

## Failure

ExecutionFailed: there is no 'nowhere.md' in the workspace; list_files shows what there is

## Plan

1. ✓ list_files (done)
2. ✗ read_file (failed)
3. · record (to do)

## Step 1: list_files

Status: done, in <time>.

**Summary**

docs/one.md 38 3 text (+2 lines)

**Tool calls**

1. `list_files` `{\"path\":\"docs\"}` → `docs/one.md 38 3 text (+2 lines)`

## Step 2: read_file

Status: failed, in <time>.

**Failure**

ExecutionFailed: there is no 'nowhere.md' in the workspace; list_files shows what there is

**Tool calls**

1. `read_file` `{\"path\":\"nowhere.md\"}` → **failed** (ExecutionFailed): `ExecutionFailed: there is no 'nowhere.md' in the workspace; list_files shows what there is`

## Failures

- Step 2, `read_file`: `ExecutionFailed: there is no 'nowhere.md' in the workspace; list_files shows what there is`
- Step 2 failed: ExecutionFailed: there is no 'nowhere.md' in the workspace; list_files shows what there is

## Usage

| | model calls | tokens in | tokens out | cost |
|---|---:|---:|---:|---:|
| Total | 0 | 0 | 0 | $0.0000 |
";

pub(crate) async fn check(scene: &mut Scene) {
    for (run, expected) in [(1, FIRST), (2, SECOND)] {
        let report = scene.report(run).await;
        let lines: Vec<String> = report.lines().map(without_times).collect();
        let expected: Vec<&str> = expected.lines().collect();
        assert_eq!(lines, expected, "{report}");
    }
    let latest = scene.report(0).await;
    assert_eq!(latest, scene.report(2).await);
}

/// How long something took depends on the machine.
fn without_times(line: &str) -> String {
    if line.starts_with("- Time: ") {
        return "- Time: <times>".to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        let unit = word.trim_end_matches(['.', ')', ',']);
        let number = words.last().map(|word| word.trim_start_matches('('));
        let is_number = number.is_some_and(|it| it.parse::<f64>().is_ok());
        if !is_number || !["ms", "s"].contains(&unit) {
            words.push(word.to_owned());
            continue;
        }
        let before = words.pop().unwrap_or_default();
        let open = if before.starts_with('(') { "(" } else { "" };
        words.push(format!("{open}<time>{}", &word[unit.len()..]));
    }
    let line = words.join(" ");
    // A call that took no time is shown without one.
    line.strip_suffix(" (<time>)").unwrap_or(&line).to_owned()
}
