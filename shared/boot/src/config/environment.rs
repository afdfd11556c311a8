//! The process's environment as a value: read once, then passed on.

use std::collections::BTreeMap;
use std::fmt;

/// The variables of an environment. Debug shows their names only: any of them may be a secret.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    not_utf8: Vec<String>,
}

impl Environment {
    /// The environment of this process. `main` calls it once; nothing else asks the system.
    pub fn from_process() -> Self {
        let mut environment = Self::default();
        for (name, value) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            match value.into_string() {
                Ok(value) => {
                    environment.variables.insert(name, value);
                }
                Err(_) => environment.not_utf8.push(name),
            }
        }
        environment
    }

    /// An environment of these variables.
    pub fn of<N: Into<String>, V: Into<String>>(
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let variables = variables.into_iter();
        Self {
            variables: variables.map(|(n, v)| (n.into(), v.into())).collect(),
            not_utf8: Vec::new(),
        }
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// All variables with a readable value, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// The names of the variables whose value is not UTF-8.
    pub(crate) fn not_utf8(&self) -> &[String] {
        &self.not_utf8
    }

    #[cfg(test)]
    pub(crate) fn with_broken(name: &str) -> Self {
        Self {
            variables: BTreeMap::new(),
            not_utf8: vec![name.to_owned()],
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}
