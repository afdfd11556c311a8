//! Files that Cairn, git or an agent reads or runs on its own. A person approves each write of one, whatever the
//! rules allow.

use cap_std::fs::Dir;
use std::ffi::OsStr;
use std::path::{Component, Path};

/// Protected in any folder, in any case of letters.
const NAMES: [&str; 4] = ["cairn.toml", ".mcp.json", "agents.md", "claude.md"];
/// The folder of a repository, or the file that leads to it. Git runs its hooks.
const GIT: &str = ".git";
/// Folders of agents and skills, from the workspace. The settings may name others besides.
pub(crate) const FOLDERS: [&str; 8] = [
    ".cairn/agents",
    ".claude/agents",
    ".opencode/agents",
    ".opencode/agent",
    ".github/agents",
    ".agents/skills",
    ".cairn/skills",
    ".claude/skills",
];
/// The folder of prompts, beside a settings file.
const PROMPTS: &str = "prompts";
const SETTINGS: &str = "cairn.toml";

/// Whether a path of the workspace, without `..`, is protected by its name.
pub(super) fn is_protected(path: &Path) -> bool {
    let names: Vec<String> = path.components().filter_map(lower).collect();
    if names.iter().any(|name| name == GIT) {
        return true;
    }
    if names
        .last()
        .is_some_and(|name| NAMES.contains(&name.as_str()))
    {
        return true;
    }
    let path = names.join("/");
    let is_in = |folder: &str| {
        let rest = path.strip_prefix(folder);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    FOLDERS.into_iter().any(is_in)
}

/// Whether `name` in `folder` is the folder of prompts beside a settings file.
pub(super) fn is_prompts(folder: &Dir, name: &OsStr) -> bool {
    let is_named = name.to_string_lossy().to_lowercase() == PROMPTS;
    is_named && folder.symlink_metadata(SETTINGS).is_ok()
}

fn lower(part: Component<'_>) -> Option<String> {
    match part {
        Component::Normal(name) => Some(name.to_string_lossy().to_lowercase()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_or_instructs_on_its_own_is_protected() {
        for (path, expected) in [
            ("cairn.toml", true),
            ("Cairn.TOML", true),
            ("below/cairn.toml", true),
            (".mcp.json", true),
            ("a/b/.mcp.json", true),
            ("AGENTS.md", true),
            ("docs/agents.md", true),
            ("CLAUDE.md", true),
            (".git", true),
            (".git/hooks/pre-commit", true),
            ("module/.GIT/config", true),
            (".claude/agents/reviewer.md", true),
            (".Claude/Agents/reviewer.md", true),
            (".agents/skills/x/run.sh", true),
            (".cairn/skills", true),
            (".claude/agents.txt", false),
            (".claude/settings.json", false),
            ("docs/.claude/agents/reviewer.md", false),
            ("cairn.toml/a", false),
            ("mcp.json", false),
            ("git/config", false),
            (".github/workflows/ci.yml", false),
            ("src/main.rs", false),
            ("AGENTS.md.txt", false),
        ] {
            assert_eq!(is_protected(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn prompts_are_protected_beside_a_settings_file() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).unwrap();
        assert!(!is_prompts(&dir, OsStr::new("prompts")));
        std::fs::write(folder.path().join(SETTINGS), "").unwrap();
        assert!(is_prompts(&dir, OsStr::new("prompts")));
        assert!(is_prompts(&dir, OsStr::new("Prompts")));
        assert!(!is_prompts(&dir, OsStr::new("prompt")));
    }
}
