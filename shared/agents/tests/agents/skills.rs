//! Skills: what their files say, and where they differ from the specification.

use crate::{lines, list};
use cairn_agents::skill::{self, SkillFile};
use std::collections::BTreeMap;

const PATH: &str = ".agents/skills/changelog-style/SKILL.md";

#[test]
fn all_that_the_specification_has() {
    let text = include_str!("../files/changelog-style/SKILL.md");
    let parsed = skill::parse(PATH, text).unwrap();
    let metadata = [("author", "docs"), ("version", "1.0")];
    let expected = SkillFile {
        name: "changelog-style".to_owned(),
        description: "How entries of the changelog are written. Use it when you add or review one.".to_owned(),
        license: Some("Apache-2.0".to_owned()),
        compatibility: Some("Needs git".to_owned()),
        metadata: BTreeMap::from(metadata.map(|(name, value)| (name.to_owned(), value.to_owned()))),
        allowed_tools: ["Read", "Bash(git log:*)", "Grep"].map(str::to_owned).to_vec(),
        is_listed: true,
        body: "# Entries\n\nOne sentence for each change, in the words of a user. See references/examples.md."
            .to_owned(),
    };
    assert_eq!(parsed.value, expected);
    assert_eq!(lines(&parsed.warnings), Vec::<String>::new());
}

/// The warnings of a skill with these lines of front matter.
fn warnings(path: &str, front: &str) -> Vec<String> {
    let text = format!("---\n{front}\n---\nBody");
    lines(&skill::parse(path, &text).unwrap().warnings)
}

fn error(path: &str, text: &str) -> String {
    skill::parse(path, text).unwrap_err().to_string()
}

#[test]
fn a_file_beyond_the_specification_loads_with_a_warning() {
    assert_eq!(
        warnings("skills/pdf/SKILL.md", "name: PDF tools\ndescription: D"),
        ["line 2: name is \"PDF tools\", and the skill has the name of its folder, \"pdf\""]
    );
    assert_eq!(
        warnings("skills/pdf/SKILL.md", "description: D"),
        ["name is missing: the skill has the name of its folder, \"pdf\""]
    );
    assert_eq!(
        warnings("skills/My_Skill/SKILL.md", "name: My_Skill\ndescription: D"),
        [
            "line 2: name is \"My_Skill\", where the specification allows 1 to 64 of a-z, 0-9 and '-'"
        ]
    );
    let long = format!(
        "name: pdf\ndescription: {}\ncompatibility: {}",
        "é".repeat(1025),
        "x".repeat(501)
    );
    assert_eq!(
        warnings("skills/pdf/SKILL.md", &long),
        [
            "description has 1025 characters, where the specification allows 1024",
            "compatibility has 501 characters, where the specification allows 500",
        ]
    );
    assert_eq!(
        warnings(
            "skills/pdf/SKILL.md",
            "name: pdf\ndescription: D\ncompatiblity: x\nmodel: m\nversion: 1"
        ),
        [
            "line 4: compatiblity is no field of a skill, did you mean compatibility?",
            "line 5: model has no effect in Cairn",
        ]
    );
    let text = format!(
        "---\nname: pdf\ndescription: D\n---\n{}",
        "line\n".repeat(500)
    );
    let parsed = skill::parse("pdf/SKILL.md", &text).unwrap();
    let expected = "has 500 lines, where the specification wants fewer than 500";
    assert_eq!(lines(&parsed.warnings), [expected]);
    let empty = skill::parse("pdf/SKILL.md", "---\nname: pdf\ndescription: D\n---\n").unwrap();
    let expected = "has no text below the front matter: the skill has no instructions";
    assert_eq!(lines(&empty.warnings), [expected]);
}

#[test]
fn a_file_that_cannot_be_used_is_an_error() {
    let missing = "description is missing (allowed: what the skill does and when it is of use)";
    assert_eq!(
        error("s/SKILL.md", "Just text"),
        format!("s/SKILL.md: {missing}")
    );
    assert_eq!(
        error("s/SKILL.md", "---\nname: s\ndescription: ' '\n---\n"),
        format!("s/SKILL.md: {missing}")
    );
    assert_eq!(
        error("s/SKILL.md", "---\nname: s\ndescription: 5\n---\n"),
        "s/SKILL.md:3: description is 5 (allowed: text, in quotes if it looks like a number, a list or a map)"
    );
    for path in ["SKILL.md", "skills/a b/SKILL.md", "../SKILL.md"] {
        let error = error(path, "---\nname: s\ndescription: D\n---\n");
        assert!(
            error.contains("name comes from the skill's folder, which is"),
            "{error}"
        );
    }
    assert_eq!(
        error(
            "s/SKILL.md",
            "---\nname: s\ndescription: D\nallowed-tools: 5\n---\n"
        ),
        "s/SKILL.md:4: allowed-tools is 5 (allowed: a list of names, or names with commas between them)"
    );
}

#[test]
fn a_skill_can_be_kept_from_models() {
    let text = "---\nname: s\ndescription: D\ndisable-model-invocation: true\nallowed-tools: [Read, Grep]\n---\nB";
    let skill = skill::parse("s/SKILL.md", text).unwrap().value;
    assert!(!skill.is_listed);
    assert_eq!(skill.allowed_tools, list("Read Grep"));
}
