//! Tools that write down, outside of Cairn, that they were called.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// The tool: one line with the call's key for each time that it was really called.
pub(crate) const TOOL_SCRIPT: &str = r#"
set -eu
arguments=$(cat)
printf '%s %s\n' "$CAIRN_CALL_KEY" "$arguments" >>"$LEDGER"
sync "$LEDGER"
echo "${VERB:-recorded} $arguments"
"#;

/// What a tool did.
#[derive(Debug)]
pub struct Ledger(PathBuf);

impl Ledger {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// How often each key was used.
    pub fn uses(&self) -> BTreeMap<String, u32> {
        let mut uses = BTreeMap::new();
        for line in fs::read_to_string(&self.0).unwrap_or_default().lines() {
            let key = line.split(' ').next().unwrap_or_default();
            *uses.entry(key.to_owned()).or_default() += 1;
        }
        uses
    }

    /// How often a call with these arguments was carried out.
    pub fn times(&self, arguments: &str) -> usize {
        let lines = fs::read_to_string(&self.0).unwrap_or_default();
        let given = lines.lines().filter_map(|line| line.split_once(' '));
        given.filter(|(_, given)| *given == arguments).count()
    }

    /// Whether the call of this key was carried out.
    pub fn has(&self, key: &str) -> bool {
        self.uses().contains_key(key)
    }
}
