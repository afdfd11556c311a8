//! Layered configuration: defaults < TOML file < environment < flags.
//!
//! A service owns its settings as a plain struct, and the binary's settings are a struct of
//! those. Adding a setting is adding a field:
//!
//! ```
//! use cairn_boot::{Checks, Environment, Layers, Secret, Settings};
//! use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//!
//! #[derive(Debug, Serialize, Deserialize)]
//! #[serde(default)]
//! struct Memory {
//!     #[serde(with = "cairn_boot::config::duration")]
//!     lease: Duration,
//!     password: Secret,
//! }
//!
//! impl Default for Memory {
//!     fn default() -> Self {
//!         Self { lease: Duration::from_secs(15), password: Secret::default() }
//!     }
//! }
//!
//! impl Settings for Memory {
//!     fn check(&self, checks: &mut Checks) {
//!         checks.range("lease", self.lease, Duration::from_secs(1)..=Duration::from_secs(60));
//!     }
//! }
//!
//! let environment = Environment::of([("CAIRN_LEASE", "20s")]);
//! let loaded = Layers::new().environment(&environment).load::<Memory>()?;
//! assert_eq!(loaded.config.lease, Duration::from_secs(20));
//! # Ok::<(), cairn_boot::ConfigErrors>(())
//! ```
//!
//! All faults of all layers are found in one go: unknown names (with the nearest known one),
//! wrong types, values out of range. A value with a fault counts as not given, so that the search
//! continues below it. The structs are read without help from untagged enums and flattened
//! structs: those lose what type a text is to become.

mod document;
pub mod duration;
mod environment;
mod fault;
mod file;
mod layers;
mod node;
mod problem;
mod reader;
mod secret;
mod shown;

pub use document::Document;
pub use environment::Environment;
pub use fault::{ConfigErrors, ConfigFault, Origin};
pub use layers::{Layers, Loaded};
pub use secret::Secret;

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::ops::RangeInclusive;

/// A struct of settings: its default, its fields, and what else must hold.
///
/// Give it `#[serde(default)]`, so that everything may be left out. Unknown names are faults
/// always.
pub trait Settings: Default + Serialize + DeserializeOwned {
    /// Checks what types cannot say: ranges, and rules between fields. The message of such a rule
    /// carries its reason.
    fn check(&self, checks: &mut Checks) {
        let _ = checks;
    }
}

/// Gathers what [`Settings::check`] finds.
#[derive(Debug, Default)]
pub struct Checks {
    prefix: String,
    pub(crate) found: Vec<Finding>,
}

#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) problem: String,
    pub(crate) allowed: String,
}

impl Checks {
    /// A fault of the setting `name` unless `holds`. `problem` reads on from the name ("is longer
    /// than lease, so a lease would end while it is renewed") and shows no secret.
    pub fn require(&mut self, holds: bool, name: &str, problem: &str, allowed: &str) {
        if !holds {
            self.found.push(Finding {
                path: self.path(name),
                problem: problem.to_owned(),
                allowed: allowed.to_owned(),
            });
        }
    }

    /// A fault unless the value lies in the range.
    pub fn range<T: PartialOrd + Debug + Copy>(
        &mut self,
        name: &str,
        value: T,
        range: RangeInclusive<T>,
    ) {
        let allowed = format!("{:?} to {:?}", range.start(), range.end());
        self.require(
            range.contains(&value),
            name,
            &format!("is {value:?}"),
            &allowed,
        );
    }

    /// Checks the settings of a part, such as `memory` or `command[2]`; its faults are named with
    /// the part's name in front.
    pub fn nested(&mut self, name: &str, part: &impl Settings) {
        let prefix = self.path(name);
        let outer = std::mem::replace(&mut self.prefix, prefix);
        part.check(self);
        self.prefix = outer;
    }

    fn path(&self, name: &str) -> String {
        match self.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix}.{name}"),
        }
    }
}

#[cfg(test)]
mod tests;
