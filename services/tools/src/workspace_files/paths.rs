//! Paths in the workspace: of folders that settings name, and of files.

use super::limits;
use crate::error::Fault;
use crate::files::is_odd;

/// Most folders of a list.
const MOST: usize = 32;
/// What such a path may be, for people.
const ALLOWED: &str = "a path of at most 256 bytes inside the workspace, such as .cairn/agents, without '.', \
    '..', doubled slashes, a slash at an end, and control characters";

/// What is wrong with a list of folders of the workspace.
pub(crate) fn check_paths(field: &str, paths: &[String]) -> Vec<Fault> {
    let mut faults = Vec::new();
    if paths.len() > MOST {
        let problem = format!("has {} folders", paths.len());
        faults.push(Fault::new(field, problem, format!("at most {MOST}")));
    }
    for (at, path) in paths.iter().enumerate() {
        let shown = crate::text::brief(path, 80);
        let shown = shown.escape_debug();
        if !is_inside(path) {
            faults.push(Fault::new(field, format!("has '{shown}'"), ALLOWED));
        } else if paths[..at].contains(path) {
            let problem = format!("has '{shown}' twice");
            faults.push(Fault::new(field, problem, "each folder once"));
        }
    }
    faults
}

/// Whether a path leads below a folder, name by name.
pub(super) fn is_inside(path: &str) -> bool {
    let is_name = |part: &str| !matches!(part, "" | "." | "..") && is_plain(part);
    path.len() <= limits::PATH && path.split('/').all(is_name)
}

/// Whether a name has no character that changes how the text around it looks.
pub(super) fn is_plain(name: &str) -> bool {
    !name.chars().any(is_odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_inside_of_the_workspace() {
        let good = [".cairn/agents", "a", "a b/é", "~x"].map(str::to_owned);
        assert!(check_paths("agent_paths", &good).is_empty());
        for bad in [
            "",
            ".",
            "..",
            "/etc",
            "a/",
            "a//b",
            "a/../b",
            "./a",
            "a\nb",
            "a\u{202e}b",
            "a\0",
            &"a".repeat(257),
        ] {
            let faults = check_paths("agent_paths", &[bad.to_owned()]);
            let [fault] = faults.as_slice() else {
                panic!("{bad:?}: {faults:?}");
            };
            assert_eq!(fault.field, "agent_paths");
            assert!(is_plain(&fault.problem), "{fault}");
        }
        let twice = ["a", "b", "a"].map(str::to_owned);
        let faults = check_paths("skill_paths", &twice);
        assert_eq!(faults.len(), 1);
        assert_eq!(
            faults[0].to_string(),
            "skill_paths has 'a' twice (allowed: each folder once)"
        );
        let many: Vec<String> = (0..33).map(|at| format!("a{at}")).collect();
        assert_eq!(check_paths("skill_paths", &many).len(), 1);
    }
}
