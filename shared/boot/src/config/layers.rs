//! Puts the layers over each other and reads the result.

use super::document::Document;
use super::environment::Environment;
use super::fault::{ConfigErrors, ConfigFault, Origin};
use super::file;
use super::node::{Node, child_path, is_within};
use super::problem::{Kind, Problem};
use super::reader::Reader;
use super::{Checks, Settings, shown};
use std::collections::BTreeMap;
use std::path::Path;

/// What variables of settings begin with. The rest is the path in capitals, with `__` between
/// its parts: `CAIRN_MEMORY__LEASE` is `memory.lease`.
const PREFIX: &str = "CAIRN_";

/// The sources of a configuration. Files count less than variables, and these less than flags;
/// among sources of one sort, the later counts more.
#[derive(Debug, Default)]
pub struct Layers {
    files: Vec<Node>,
    aliases: Vec<Node>,
    variables: Vec<Node>,
    flags: Vec<Node>,
    faults: Vec<ConfigFault>,
}

/// A configuration without faults.
#[derive(Debug)]
pub struct Loaded<T> {
    /// The settings.
    pub config: T,
    /// Variables that begin like ours and name no setting: `CAIRN_PORT`, as Kubernetes sets it
    /// beside a service called cairn. Those with `__`, those that look like a slip of the pen,
    /// and unknown names inside the value of a variable are faults instead.
    pub ignored_variables: Vec<String>,
    origins: BTreeMap<String, Origin>,
}

impl Layers {
    /// Nothing but the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// A TOML file that somebody named, and so has to be there.
    #[must_use]
    pub fn file(self, path: &Path) -> Self {
        self.read_file(path, false)
    }

    /// A TOML file that counts if it is there.
    #[must_use]
    pub fn optional_file(self, path: &Path) -> Self {
        self.read_file(path, true)
    }

    /// The text of a TOML file, known under a name.
    #[must_use]
    pub fn text(mut self, name: &str, toml: &str) -> Self {
        match file::parse(name, toml) {
            Ok(tree) => self.files.push(tree),
            Err(faults) => self.faults.extend(faults),
        }
        self
    }

    /// A TOML file that was read before.
    #[must_use]
    pub fn document(mut self, document: Document) -> Self {
        self.files.push(document.0);
        self
    }

    /// All variables that begin with `CAIRN_`.
    #[must_use]
    pub fn environment(mut self, environment: &Environment) -> Self {
        for (variable, value) in environment.iter() {
            let Some(path) = variable.strip_prefix(PREFIX) else {
                continue;
            };
            let path = path.to_lowercase();
            let names: Vec<_> = path.split("__").collect();
            let origin = Origin::Variable(variable.to_owned());
            let branch = self.branch(&names, origin, value);
            self.variables.extend(branch);
        }
        for variable in environment.not_utf8() {
            if variable.starts_with(PREFIX) {
                self.faults.push(ConfigFault {
                    path: String::new(),
                    source: Origin::Variable(variable.clone()),
                    problem: "is not UTF-8".to_owned(),
                    allowed: String::new(),
                });
            }
        }
        self
    }

    /// A variable with a name of its own, if it is set: `("OPENAI_API_KEY", "model.api_key")`. A
    /// variable with the setting's full name counts more.
    #[must_use]
    pub fn alias(mut self, environment: &Environment, variable: &str, path: &str) -> Self {
        if let Some(value) = environment.get(variable) {
            let names: Vec<_> = path.split('.').collect();
            let origin = Origin::Variable(variable.to_owned());
            let branch = self.branch(&names, origin, value);
            self.aliases.extend(branch);
        }
        self
    }

    /// A flag of the command line that sets the setting at `path`: `("--log", "log.level", "debug")`.
    #[must_use]
    pub fn flag(mut self, flag: &str, path: &str, value: &str) -> Self {
        let names: Vec<_> = path.split('.').collect();
        let branch = self.branch(&names, Origin::Flag(flag.to_owned()), value);
        self.flags.extend(branch);
        self
    }

    /// Reads the settings.
    ///
    /// # Errors
    /// All faults of all layers, and what [`Settings::check`] finds in what is left without the
    /// values that have a fault already.
    pub fn load<T: Settings>(self) -> Result<Loaded<T>, ConfigErrors> {
        let mut faults = self.faults;
        let mut root = Node::root();
        let layers = [self.files, self.aliases, self.variables, self.flags];
        for layer in layers.into_iter().flatten() {
            root.overlay(layer, &mut faults);
        }
        let mut reading = Reading {
            root,
            faults,
            shortened: Vec::new(),
            ignored_variables: Vec::new(),
        };
        let config: Option<T> = reading.read();
        let mut origins = BTreeMap::new();
        reading.root.origins(&mut origins);
        if let Some(config) = &config {
            reading.check(config, &origins);
        }
        let faults = reading.faults;
        match config {
            Some(config) if faults.is_empty() => Ok(Loaded {
                config,
                ignored_variables: reading.ignored_variables,
                origins,
            }),
            _ => Err(ConfigErrors(faults)),
        }
    }

    fn read_file(mut self, path: &Path, may_be_absent: bool) -> Self {
        match file::read(path, may_be_absent) {
            Ok(tree) => self.files.extend(tree),
            Err(faults) => self.faults.extend(faults),
        }
        self
    }

    fn branch(&mut self, names: &[&str], source: Origin, value: &str) -> Option<Node> {
        if names.iter().all(|name| !name.is_empty()) {
            return Some(Node::branch(names, &source, value));
        }
        self.faults.push(ConfigFault {
            path: names.join("."),
            source,
            problem: "is not a path of a setting".to_owned(),
            allowed: "names with one dot between them, or __ in variables".to_owned(),
        });
        None
    }
}

impl<T: Settings> Loaded<T> {
    /// Where the value of a setting comes from.
    pub fn origin(&self, path: &str) -> &Origin {
        shown::origin(&self.origins, path)
    }

    /// Every setting with its value and its origin, one a line, as TOML that could be read again.
    /// Secrets are masked.
    pub fn show(&self) -> String {
        shown::show(&self.config, &self.origins)
    }
}

/// Whether a variable is named like this path and no part of it. A name that is unknown inside its value is a fault:
/// the variable itself is ours.
fn is_named_alone(variable: &str, path: &str) -> bool {
    let own = variable.strip_prefix(PREFIX);
    own.is_some_and(|own| path == child_path("", &own.to_lowercase()))
}

/// The tree on its way to settings, and what is found on that way.
struct Reading {
    root: Node,
    faults: Vec<ConfigFault>,
    /// Lists that lost an item: the numbers of their items are no longer those in the source.
    shortened: Vec<String>,
    ignored_variables: Vec<String>,
}

impl Reading {
    /// Reads the tree, taking out each value with a fault until the rest can be read.
    fn read<T: Settings>(&mut self) -> Option<T> {
        loop {
            match T::deserialize(Reader(self.root.clone())) {
                Ok(config) => return Some(config),
                Err(problem) => self.take_out(problem)?,
            }
        }
    }

    /// Notes a fault and takes its value out of the tree. `None` if there is nothing to take.
    fn take_out(&mut self, problem: Problem) -> Option<()> {
        let path = problem.path();
        let (node, source) = *problem.at.unwrap_or_default();
        match (&problem.kind, &source) {
            (Kind::UnknownName { suggestion: false }, Origin::Variable(name))
                if is_named_alone(name, &node) =>
            {
                self.ignored_variables.push(name.clone());
            }
            // What is missing because its value was taken out has been told already.
            (Kind::Missing(_), _) if self.faults.iter().any(|fault| fault.path == path) => {}
            // What a list lacks may be the item that was taken out.
            _ if self.shortened.contains(&path) => {}
            _ => self.faults.push(ConfigFault {
                path,
                source,
                problem: problem.text,
                allowed: problem.allowed,
            }),
        }
        let removed = self.root.remove(&node)?;
        if let Some((list, _)) = removed.strip_suffix(']').and_then(|p| p.rsplit_once('[')) {
            self.shortened.push(list.to_owned());
        }
        Some(())
    }

    /// Adds what the settings' own checks find, except where there is a fault already.
    fn check<T: Settings>(&mut self, config: &T, origins: &BTreeMap<String, Origin>) {
        let mut checks = Checks::default();
        config.check(&mut checks);
        let known: Vec<String> = self.faults.iter().map(|fault| fault.path.clone()).collect();
        for finding in checks.found {
            let path = &finding.path;
            let is_reported = known
                .iter()
                .any(|fault| is_within(fault, path) || is_within(path, fault));
            if is_reported || self.shortened.iter().any(|list| is_within(path, list)) {
                continue;
            }
            self.faults.push(ConfigFault {
                source: shown::origin(origins, path).clone(),
                path: finding.path,
                problem: finding.problem,
                allowed: finding.allowed,
            });
        }
    }
}
