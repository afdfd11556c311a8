use super::*;
use crate::agent;
use cairn_engine::session::PerBudget;

fn file(path: &str, kind: FileKind, text: &str) -> File {
    File {
        path: path.to_owned(),
        kind,
        text: text.to_owned(),
        digest: format!("digest of {path}"),
    }
}

fn agent_file(path: &str, front: &str) -> File {
    file(
        path,
        FileKind::Agent,
        &format!("---\n{front}\n---\nP of {path}\n"),
    )
}

fn document(front: &str) -> AgentFile {
    let parsed = agent::parse("reviewer.md", &format!("---\n{front}\n---\nStored\n"));
    parsed.unwrap().value
}

fn settings() -> RunLimits {
    RunLimits {
        max_tool_turns: 10,
        budgets: PerBudget::from([(Budget::Turns, 50), (Budget::Tokens, 1000)]),
        ..RunLimits::default()
    }
}

fn resolved(
    name: &str,
    document: Option<&AgentFile>,
    files: &[File],
) -> Result<AgentDefinition, Unusable> {
    let workspace = workspace(files);
    resolve(name, document, Some(&workspace), &settings(), &|model| {
        model == "small" || model == "large"
    })
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn the_default_agent_has_every_tool_and_what_the_workspace_says() {
    let files = [
        file("AGENTS.md", FileKind::Instructions, "Use tabs.\n"),
        agent_file(".cairn/agents/default.md", "tools: []"),
        file(
            ".agents/skills/pdf/SKILL.md",
            FileKind::Skill,
            "---\nname: pdf\ndescription: Reads PDF\n---\nDo.\n",
        ),
        file(
            ".agents/skills/hidden/SKILL.md",
            FileKind::Skill,
            "---\nname: hidden\ndescription: H\ndisable-model-invocation: true\n---\nDo.\n",
        ),
    ];
    for name in ["", "default"] {
        let definition = resolved(name, None, &files).unwrap();
        assert_eq!(definition.name, "default");
        assert_eq!(definition.prompt, "");
        assert_eq!(definition.tools, None);
        assert_eq!(definition.instructions, "Use tabs.");
        let [skill] = definition.skills.as_slice() else {
            panic!("{:?}", definition.skills);
        };
        assert_eq!(skill.description, "Reads PDF");
        assert_eq!(skill.digest, "digest of .agents/skills/pdf/SKILL.md");
    }
    let plain = resolve("", None, None, &settings(), &|_| true).unwrap();
    assert!(plain.is_plain());
}

/// A definition is one record of a journal, and each request has the list.
#[test]
fn many_long_skills_have_a_bounded_list() {
    let skill = |number: usize, description: &str| {
        file(
            &format!(".agents/skills/s-{number:03}/SKILL.md"),
            FileKind::Skill,
            &format!("---\nname: s-{number:03}\ndescription: {description}\n---\nDo.\n"),
        )
    };
    let files = |description: &str| -> Vec<File> {
        (0..400).map(|number| skill(number, description)).collect()
    };
    let long = resolved("", None, &files(&"ä".repeat(3_000)))
        .unwrap()
        .skills;
    assert_eq!(long.len(), 400, "all can be read");
    let first = &long[0].description;
    assert_eq!(first.chars().count(), 1_024);
    assert!(first.ends_with("ä…"), "{first}");
    let bytes: usize = long.iter().map(|it| it.description.len()).sum();
    assert!((60_000..=64 * 1024).contains(&bytes), "{bytes}");
    let listed = long.iter().take_while(|it| !it.description.is_empty());
    let further = long.len() - listed.count();
    let left_out = long.iter().filter(|it| it.description.is_empty());
    assert_eq!(left_out.count(), further, "the first ones are listed");
    let short = resolved("", None, &files(&"x".repeat(100))).unwrap().skills;
    assert!(short.iter().all(|it| it.description == "x".repeat(100)));
}

#[test]
fn a_file_of_the_name_of_a_stored_agent_narrows_it() {
    let stored = document(
        "tools: Read, Grep, github__*\nmodel: [gone, large]\nmax-turns: 80\nskills: [pdf, tex]",
    );
    let files = [agent_file(
        ".claude/agents/reviewer.md",
        "tools: Read, Write, github__list\ndisallowed-tools: github__drop\npermission: {read: ask}\n\
         model: small\nmax-turns: 60\nmax-tool-turns: 30\ncairn: {budgets: {tokens: 5000, calls: 7}}",
    )];
    let definition = resolved("reviewer", Some(&stored), &files).unwrap();
    assert_eq!(definition.name, "reviewer");
    assert_eq!(definition.prompt, "Stored");
    assert_eq!(definition.model, "large");
    assert_eq!(
        definition.tools,
        Some(names(&["github__list", "read_file"]))
    );
    assert_eq!(definition.denied, names(&["github__drop"]));
    assert_eq!(definition.asked, names(&["read_file"]));
    let limits = &definition.limits;
    assert_eq!(limits.max_turns, Some(60));
    assert_eq!(limits.max_tool_turns, Some(10), "as in the settings");
    assert_eq!(limits.tokens, Some(1000), "as in the settings");
    assert_eq!(limits.calls, Some(7), "the settings have no such limit");
    assert_eq!(limits.time_ms, None);
    // Without the file, the stored agent has what the operator gave it.
    let stored = resolved("reviewer", Some(&stored), &[]).unwrap();
    assert_eq!(stored.limits.max_turns, Some(80));
    assert_eq!(stored.denied, names(&[]));
}

#[test]
fn a_file_alone_has_a_name_that_no_stored_agent_has() {
    let files = [agent_file(
        ".claude/agents/reviewer.md",
        "model: [gone, small]\nmax-turns: 80",
    )];
    let stored = document("tools: Read");
    for (name, document) in [
        ("reviewer", None),
        ("workspace:reviewer", None),
        ("workspace:reviewer", Some(&stored)),
    ] {
        let definition = resolved(name, document, &files).unwrap();
        assert_eq!(definition.name, "workspace:reviewer");
        assert_eq!(definition.prompt, "P of .claude/agents/reviewer.md");
        assert_eq!(definition.model, "small");
        assert_eq!(definition.tools, None);
        assert_eq!(definition.limits.max_turns, Some(50), "as in the settings");
    }
}

#[test]
fn an_agent_that_cannot_be_used_is_refused_in_words() {
    let files = [
        agent_file(".cairn/agents/off.md", "disable: true"),
        agent_file(".cairn/agents/worker.md", "mode: subagent"),
        agent_file(".cairn/agents/bad.md", "hidden: 1"),
    ];
    let stored = |name: &str| AgentFile::named(name);
    for (name, document, message) in [
        (
            "other",
            None,
            "agent \"other\" does not exist; agents of the workspace: workspace:off, workspace:worker",
        ),
        (
            "workspace:../a",
            None,
            "agent \"workspace:../a\" does not exist; agents of the workspace: workspace:off, \
             workspace:worker",
        ),
        (
            "off",
            Some(stored("off")),
            "agent \"off\" is disabled in its definition; remove the field disable there, or use another \
             agent",
        ),
        (
            "workspace:worker",
            None,
            "agent \"workspace:worker\" works for other agents only (mode: subagent); use another agent",
        ),
        (
            "bad",
            Some(stored("bad")),
            "agent \"bad\" has a file that cannot be used: .cairn/agents/bad.md:2: hidden is 1 (allowed: \
             true or false)",
        ),
    ] {
        let error = resolved(name, document.as_ref(), &files).unwrap_err();
        assert_eq!(error.message(name), message);
    }
    let nothing = resolve("x", None, None, &settings(), &|_| true).unwrap_err();
    assert_eq!(nothing.message("x"), "agent \"x\" does not exist");
}

#[test]
fn the_first_file_of_a_name_counts_and_faults_are_problems() {
    let files = [
        agent_file(".cairn/agents/a.md", "description: first"),
        agent_file(".claude/agents/b.md", "name: a"),
        agent_file(".claude/agents/bad.md", "hidden: 1\nmode: 2"),
        agent_file(".github/agents/bad.agent.md", "description: late"),
        file("s/x/SKILL.md", FileKind::Skill, "no front matter"),
        file("AGENTS.md", FileKind::Instructions, "@docs/more.md\n"),
    ];
    let workspace = workspace(&files);
    assert_eq!(workspace.agents["a"].description, "first");
    assert_eq!(workspace.agents.len(), 1);
    assert!(workspace.faulty["bad"].starts_with(".claude/agents/bad.md:2: hidden is 1"));
    let problems = [
        ".claude/agents/b.md: is agent a, which .cairn/agents/a.md defines already, so .cairn/agents/a.md \
         counts (allowed: another name)",
        ".claude/agents/bad.md:2: hidden is 1 (allowed: true or false)",
        ".claude/agents/bad.md:3: mode is 2 (allowed: primary, subagent, all)",
        ".claude/agents/bad.md: has faults, so it does not count",
        ".github/agents/bad.agent.md: is agent bad, which .claude/agents/bad.md defines already, so \
         .claude/agents/bad.md counts (allowed: another name)",
        "s/x/SKILL.md: description is missing (allowed: what the skill does and when it is of use)",
        "s/x/SKILL.md: has faults, so it does not count",
        "AGENTS.md:1: the file that the line includes is not read",
    ];
    assert_eq!(workspace.problems, problems);
}
