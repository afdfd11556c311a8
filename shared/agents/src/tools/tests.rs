use super::*;
use crate::rights::Tools;

/// The patterns that a name stands for, with the warnings.
fn meant(text: &str) -> (Option<Vec<String>>, Vec<String>) {
    let mut found = Found::default();
    let item = Item {
        line: 3,
        text: text.to_owned(),
    };
    let named = named(&item, "tools", &mut found);
    assert!(found.errors.is_empty(), "{text}: {:?}", found.errors);
    let warnings = found.warnings.iter().map(ToString::to_string);
    (named.unwrap().patterns, warnings.collect())
}

#[test]
fn names_of_other_programs_stand_for_tools_of_cairn() {
    for (names, tools) in [
        ("Read NotebookRead read view", "read_file"),
        (
            "Write Edit MultiEdit edit editFiles edit/editFiles",
            "edit_file write_file",
        ),
        ("Grep grep search/codebase", "search_files"),
        ("Glob LS list glob search/fileSearch", "list_files"),
        ("search search/*", "list_files search_files"),
        (
            "Bash bash execute shell run_in_terminal execute/runInTerminal",
            "shell_exec",
        ),
        ("WebFetch web/fetch", "fetch_page"),
        ("WebSearch", "web_search"),
        ("Task Agent agent/runSubagent", "delegate"),
        ("AskUserQuestion", "ask_person"),
        ("TodoWrite todo BashOutput vscode vscode/*", ""),
        (
            "mcp__github__create_issue github/create_issue",
            "github__create_issue",
        ),
        ("mcp__github mcp__github__* github/*", "github__*"),
        ("read_file", "read_file"),
        ("session_memory_set", "session_memory_set"),
        ("github__*", "github__*"),
    ] {
        let tools: Vec<String> = tools.split_whitespace().map(str::to_owned).collect();
        for name in names.split_whitespace() {
            assert_eq!(meant(name), (Some(tools.clone()), Vec::new()), "{name}");
        }
    }
    assert_eq!(meant("*"), (None, Vec::new()));
}

#[test]
fn a_name_that_is_not_known_stays_a_pattern_with_a_warning() {
    for (name, pattern) in [
        ("deploy", "deploy"),
        ("github-pr-search", "github-pr-search"),
        ("read/problems", "problems"),
        ("Reed", "Reed"),
    ] {
        let quoted = name.rsplit('/').next().unwrap();
        let (patterns, warnings) = meant(name);
        assert_eq!(patterns, Some(vec![pattern.to_owned()]));
        assert_eq!(warnings.len(), 1, "{name}");
        assert!(warnings[0].contains(quoted) && warnings[0].contains("kept as a pattern"));
    }
}

#[test]
fn a_text_is_split_outside_of_parentheses() {
    assert_eq!(
        split("Read, Bash(git add:*, git log), Grep"),
        ["Read", "Bash(git add:*, git log)", "Grep"]
    );
    assert_eq!(split("Bash(git:*) Read"), ["Bash(git:*)", "Read"]);
    assert_eq!(split(" a,,b\n c "), ["a", "b", "c"]);
    assert_eq!(split("a) b"), ["a)", "b"]);
    assert!(split("").is_empty());
}

fn entry(value: Value) -> Entry {
    Entry {
        line: 3,
        name: "tools".to_owned(),
        value,
    }
}

/// What a list of tools offers, asks for and warns of.
fn read(text: &str) -> (Draft, Vec<String>) {
    let (mut draft, mut found) = (Draft::default(), Found::default());
    offered(&entry(Value::Text(text.to_owned())), &mut draft, &mut found);
    let faults = found.errors.iter().chain(&found.warnings);
    (draft, faults.map(ToString::to_string).collect())
}

#[test]
fn a_limit_of_arguments_becomes_a_question() {
    let (draft, faults) = read("Read, Bash(git:*), Edit(*)");
    let only = ["edit_file", "read_file", "shell_exec", "write_file"];
    assert_eq!(draft.tools(), Tools::Only(only.map(str::to_owned).to_vec()));
    assert_eq!(draft.ask.iter().collect::<Vec<_>>(), ["shell_exec"]);
    let warning = "line 3: tools limits calls by \"Bash(git:*)\", which Cairn does not know: each call of \
        shell_exec asks";
    assert_eq!(faults, [warning]);
}

#[test]
fn a_list_of_agents_limits_who_is_given_tasks() {
    let (draft, faults) = read("Agent(worker, tester), Read");
    let agents = draft.agents.unwrap();
    assert_eq!(agents.iter().collect::<Vec<_>>(), ["tester", "worker"]);
    assert!(draft.ask.is_empty() && faults.is_empty(), "{faults:?}");
}

#[test]
fn every_tool_is_no_limit_and_no_value_is_an_error() {
    assert_eq!(read("Read, *").0.tools(), Tools::All);
    for text in ["", " "] {
        let (_, faults) = read(text);
        assert!(
            faults[0].contains("allowed: names of tools, or [] for none"),
            "{faults:?}"
        );
    }
    let (_, faults) = read("Bash(git, Read");
    assert!(faults[0].contains("has a '(' without a ')'"), "{faults:?}");
    let (_, faults) = read("a[");
    assert!(faults[0].contains("is no pattern"), "{faults:?}");
    let (_, faults) = read("(git)");
    assert!(faults[0].contains("is no name"), "{faults:?}");
}

/// In opencode, `write` and `edit` are two rights.
#[test]
fn a_switch_that_denies_what_another_offers_is_said() {
    let switch = |name: &str, is_on| Entry {
        line: 4,
        name: name.to_owned(),
        value: Value::Truth(is_on),
    };
    let read = |switches: Vec<Entry>| {
        let (mut draft, mut found) = (Draft::default(), Found::default());
        offered(&entry(Value::Map(switches)), &mut draft, &mut found);
        assert!(found.errors.is_empty(), "{:?}", found.errors);
        let warnings = found.warnings.iter().map(ToString::to_string);
        (draft.denied, warnings.collect::<Vec<_>>())
    };
    let both = ["edit_file", "write_file"].map(str::to_owned).into();
    for switches in [
        vec![switch("write", true), switch("edit", false)],
        vec![switch("edit", false), switch("write", true)],
    ] {
        let (denied, warnings) = read(switches);
        assert_eq!(denied, both);
        let said = "line 4: tools.edit is false and counts, though another name offers the same: \
            edit_file, write_file";
        assert_eq!(warnings, [said]);
    }
    let (denied, warnings) = read(vec![switch("read", true), switch("edit", false)]);
    assert_eq!((denied, warnings), (both, Vec::new()));
}
