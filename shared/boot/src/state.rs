//! Where a user's programs keep what they know from one start to the next.

use std::path::PathBuf;

/// Cairn's own folder there: `$XDG_STATE_HOME/cairn`, else `~/.local/state/cairn`. None if neither variable
/// names an absolute path. `variable` gives the value of a variable of the environment.
pub fn state_folder(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    // A relative path would be another folder in each folder; the convention ignores it, too.
    let absolute = |name| {
        let path = variable(name).map(PathBuf::from);
        path.filter(|it| it.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME");
    let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("cairn"))
}
