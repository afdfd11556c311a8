//! The conditions of an approval of further calls, ready to judge by.

use super::{Condition, Pattern, Scope};
use serde::{Deserialize, Serialize, Serializer};
use std::sync::Arc;

/// What an approval of further calls wants of a call: all of these must be met.
///
/// Its patterns are compiled when it is made or read, and not for each call that is judged. Only the
/// conditions as they were written are stored and compared.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Vec<Condition>")]
pub struct Conditions {
    written: Vec<Condition>,
    /// None if one of them is no pattern: then no call is covered.
    compiled: Option<Arc<[(String, Pattern)]>>,
}

impl Conditions {
    /// As they were written.
    pub fn written(&self) -> &[Condition] {
        &self.written
    }

    /// Whether a call of this scope meets them. A condition with an empty pattern is met by calls that leave
    /// the value out. If the tool declares no arguments, the conditions must name all that the call has.
    pub fn covers(&self, scope: &Scope) -> bool {
        let compiled = self.compiled.as_ref();
        compiled.is_some_and(|when| scope.is_covered(when))
    }
}

impl From<Vec<Condition>> for Conditions {
    fn from(written: Vec<Condition>) -> Self {
        let compile = |it: &Condition| {
            let pattern = Pattern::new(&it.pattern).ok()?;
            Some((it.name.clone(), pattern))
        };
        let compiled = written.iter().map(compile).collect();
        Self { written, compiled }
    }
}

impl From<Conditions> for Vec<Condition> {
    fn from(conditions: Conditions) -> Self {
        conditions.written
    }
}

impl PartialEq for Conditions {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for Conditions {}

impl Serialize for Conditions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.written.serialize(serializer)
    }
}
