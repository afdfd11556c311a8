//! Files that Cairn, git or an agent reads or runs on its own. A person approves each write of one, whatever the
//! rules allow.

use cap_std::fs::Dir;
use std::ffi::OsStr;
use std::path::{Component, Path};

/// Protected in any folder.
const NAMES: [&str; 4] = ["cairn.toml", ".mcp.json", "agents.md", "claude.md"];
/// The folder of a repository, or the file that leads to it. Git runs its hooks.
const GIT: &str = ".git";
/// Folders of agents and skills, from the workspace. Other programs read them, too, so they are protected also where
/// the settings name others.
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

/// What is protected in one workspace.
#[derive(Debug)]
pub(super) struct Protected {
    /// Folders of agents and skills, from the workspace, as [`plain`] has them.
    folders: Vec<String>,
}

impl Protected {
    /// `more` are the folders that the settings name.
    pub(super) fn new(more: &[String]) -> Self {
        let more = more.iter().map(|folder| plain(Path::new(folder)).join("/"));
        let folders = FOLDERS.map(str::to_owned).into_iter().chain(more);
        Self {
            folders: folders.collect(),
        }
    }

    /// Whether a path of the workspace, without `..`, is protected by its name.
    pub(super) fn covers(&self, path: &Path) -> bool {
        let names = plain(path);
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
        let is_in = |folder: &String| {
            let rest = path.strip_prefix(folder.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.folders.iter().any(is_in)
    }
}

/// Whether `name` in `folder` is the folder of prompts beside a settings file.
pub(super) fn is_prompts(folder: &Dir, name: &OsStr) -> bool {
    plain_name(name) == PROMPTS && folder.symlink_metadata(SETTINGS).is_ok()
}

/// The names of a path, each as [`plain_name`] has it.
fn plain(path: &Path) -> Vec<String> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(plain_name(name)),
        _ => None,
    });
    names.collect()
}

/// A name as the least strict file system reads it. Some ignore the case of letters, which has `ſ` as an `s`, and
/// characters that are not seen; some ignore dots and blanks at the end. Of a name with letters of ASCII only these
/// count: that asks too often rather than too seldom.
fn plain_name(name: &OsStr) -> String {
    let name = name.to_string_lossy().to_uppercase().to_lowercase();
    let plain: String = name.chars().filter(char::is_ascii).collect();
    match plain.trim_end_matches(['.', ' ']) {
        "" => name,
        plain => plain.to_owned(),
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
            ("agent\u{17f}.md", true),
            ("CLAUDE\u{200d}.md", true),
            (".g\u{200c}it/config", true),
            (".git./config", true),
            ("cairn.toml. .", true),
            (".claude/s\u{212a}ills/x", true),
            ("agénts.md", false),
            ("own/agents/a.md", true),
            ("Own/Agents/a.md", true),
            ("own/agents.md.txt", false),
            ("rôles/a.md", true),
            ("агенты/a.md", true),
            ("тексты/a.md", false),
        ] {
            let protected = Protected::new(&["own/Agents", "rôles", "агенты"].map(str::to_owned));
            assert_eq!(protected.covers(Path::new(path)), expected, "{path}");
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
