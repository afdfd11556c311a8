//! Files that Cairn, git or an agent reads or runs on its own: a person approves each write of one.
//!
//! The tools service knows them by where they are, links and settings included, and says so in previews. Here they
//! are known by the arguments of a call, for writes without a preview.

use super::Pattern;
use std::sync::LazyLock;

/// In any case of letters. One that does not begin with `**` is a path from the workspace.
const PROTECTED: [&str; 15] = [
    "**/cairn.toml",
    "**/.mcp.json",
    "**/agents.md",
    "**/claude.md",
    "**/.git",
    "**/.git/**",
    "**/.cairn/agents/**",
    "**/.claude/agents/**",
    "**/.opencode/agents/**",
    "**/.opencode/agent/**",
    "**/.github/agents/**",
    "**/.agents/skills/**",
    "**/.cairn/skills/**",
    "**/.claude/skills/**",
    "prompts/**",
];

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let compiled = PROTECTED.iter().filter_map(|text| Pattern::new(text).ok());
    compiled.map(Pattern::ignoring_case).collect()
});

/// The patterns of their paths.
pub(super) fn patterns() -> impl Iterator<Item = &'static Pattern> {
    PATTERNS.iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Condition, Matcher, MatcherKind, scope};
    use serde_json::json;

    fn matcher(folder: Option<&str>) -> Matcher {
        Matcher {
            name: "path".to_owned(),
            kind: MatcherKind::Path,
            argument: "path".to_owned(),
            default: None,
            folder: folder.map(str::to_owned),
        }
    }

    fn may_be(folder: Option<&str>, path: &str, links: &[Condition]) -> bool {
        let arguments = json!({ "path": path }).to_string();
        scope(&[matcher(folder)], &arguments, links).may_be_protected()
    }

    #[test]
    fn each_is_a_pattern() {
        assert_eq!(patterns().count(), PROTECTED.len());
    }

    #[test]
    fn a_path_is_protected_in_any_case_of_letters_and_by_its_links() {
        for (path, expected) in [
            ("cairn.toml", true),
            ("/work/Cairn.TOML", true),
            ("a/b/.mcp.json", true),
            ("docs/AGENTS.md", true),
            ("x/../claude.md", true),
            (".git", true),
            ("module/.GIT/hooks/pre-commit", true),
            (".claude/agents/reviewer.md", true),
            (".agents/skills", true),
            ("prompts/plan.md", true),
            ("/work/prompts/plan.md", true),
            ("~/notes", true),
            ("src/prompts/plan.md", false),
            ("src/main.rs", false),
            ("cairn.toml.txt", false),
            (".github/workflows/ci.yml", false),
        ] {
            assert_eq!(may_be(Some("/work"), path, &[]), expected, "{path}");
        }
        let link = Condition {
            name: "src/link".to_owned(),
            pattern: ".git/config".to_owned(),
        };
        assert!(may_be(Some("/work"), "src/link", &[link]));
    }

    #[test]
    fn without_a_folder_only_names_count() {
        assert!(may_be(None, "/srv/site/cairn.toml", &[]));
        assert!(!may_be(None, "/srv/site/prompts/a.md", &[]));
        assert!(!may_be(None, "/srv/site/a.md", &[]));
    }

    #[test]
    fn unclear_arguments_may_be_anything() {
        let twice = r#"{"path": "a", "Path": "b"}"#;
        assert!(scope(&[matcher(None)], twice, &[]).may_be_protected());
        assert!(!scope(&[matcher(None)], "{}", &[]).may_be_protected());
    }
}
