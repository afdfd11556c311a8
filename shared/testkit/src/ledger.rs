//! A tool with side effects that nobody can undo, and what it did.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// The tool: one line with the call's key for each time that it was really called.
pub(crate) const TOOL_SCRIPT: &str = r#"
set -eu
arguments=$(cat)
printf '%s %s\n' "$CAIRN_CALL_KEY" "$arguments" >>"$LEDGER"
sync "$LEDGER"
echo "recorded $arguments"
"#;

/// What the tool `record` did.
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

    /// Whether the call of this key was carried out.
    pub fn has(&self, key: &str) -> bool {
        self.uses().contains_key(key)
    }
}
