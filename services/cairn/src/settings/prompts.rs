//! `[prompts]`: prompts as files beside the settings file, and the variables of all prompts.

mod files;

pub(super) use files::{Links, PromptFiles};

use super::Settings;
use crate::error::CliError;
use cairn_boot::{Checks, ConfigErrors, ConfigFault, Loaded, Origin, Secret};
use cairn_model::PromptError;
use cairn_model::prompt::{Prompts, is_variable, variable_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder that counts if it is there.
pub(super) const DEFAULT_FOLDER: &str = "prompts";

/// Prompts of the operator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptSettings {
    /// The folder that has prompts as files, from the folder of the settings file.
    pub folder: PathBuf,
    /// Values by the names of variables. They may be secrets.
    pub variables: BTreeMap<String, Secret>,
    /// The prompts that count.
    #[serde(skip)]
    pub all: Arc<Prompts>,
    /// What is wrong with files that Cairn itself does not use, and which files have no text.
    #[serde(skip)]
    pub problems: Vec<String>,
    /// The folder, if files of it count and its name alone does not protect it from models.
    #[serde(skip)]
    pub private: Option<PathBuf>,
}

impl Default for PromptSettings {
    fn default() -> Self {
        Self {
            folder: PathBuf::from(DEFAULT_FOLDER),
            variables: BTreeMap::new(),
            all: Arc::default(),
            problems: Vec::new(),
            private: None,
        }
    }
}

/// The prompts that come with a settings file.
#[derive(Debug)]
pub(super) struct Beside {
    /// The folder of the settings file.
    pub(super) folder: PathBuf,
    /// Models cannot write the folder `prompts` without a person, because of the name of the settings file.
    pub(super) is_protected: bool,
    /// The files that count; none if they are to be read as the settings say.
    pub(super) files: Option<PromptFiles>,
}

impl PromptSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        let has_folder = !self.folder.as_os_str().is_empty();
        checks.require(has_folder, "prompts.folder", "is empty", "a folder");
        for name in self.variables.keys() {
            let path = format!("prompts.variables.{name}");
            let allowed = "a name of letters, digits and '_', of which the first is no digit";
            let problem = "is no variable that a prompt can use";
            checks.require(is_variable(name), &path, problem, allowed);
        }
    }

    /// Logs why files do not count.
    pub(super) fn log(&self) {
        for problem in &self.problems {
            tracing::warn!(problem, "prompt cannot be used");
        }
    }

    /// Takes these files.
    fn take(&mut self, files: &PromptFiles) -> Result<(), Vec<ConfigFault>> {
        self.problems = files.problems();
        if files.is_empty() && self.variables.is_empty() {
            return Ok(());
        }
        let mut faults = files.faults();
        let variables = self.variables.iter();
        let variables = variables.map(|(name, value)| (name.clone(), value.expose().to_owned()));
        match Prompts::new(files.templates(), variables.collect()) {
            Ok(all) => self.all = Arc::new(all),
            Err(errors) => {
                faults.extend(errors.iter().map(|error| self.fault(files, error)));
            }
        }
        match faults.is_empty() {
            true => Ok(()),
            false => Err(faults),
        }
    }

    /// A fault of a prompt that Cairn uses, at its place in the file.
    fn fault(&self, files: &PromptFiles, error: &PromptError) -> ConfigFault {
        let name = error.template();
        let known = variable_of(name).into_iter();
        let known = known.chain(self.variables.keys().map(String::as_str));
        let known: Vec<_> = known.collect();
        let allowed = match (error.variable(), known.as_slice()) {
            (None, _) => String::new(),
            (Some(_), []) => "variables of prompts.variables, which has none".to_owned(),
            (Some(_), known) => {
                format!("{}; prompts.variables can have more", known.join(", "))
            }
        };
        ConfigFault {
            path: String::new(),
            source: files.origin(name, error.line().unwrap_or(0)),
            problem: error.to_string(),
            allowed,
        }
    }
}

/// Reads the prompts that count.
///
/// # Errors
/// All faults of prompts that Cairn uses, and a folder that is named and not there.
pub(super) fn read(loaded: &mut Loaded<Settings>, beside: Beside) -> Result<(), CliError> {
    let origin = loaded.origin("prompts.folder").clone();
    let settings = &mut loaded.config.prompts;
    let folder = beside.folder.join(&settings.folder);
    // A variable of the environment is the operator's, and the settings file may be somebody else's.
    let is_of_process = matches!(origin, Origin::Variable(_) | Origin::Flag(_));
    let files = match beside.files {
        Some(files) if !is_of_process => files,
        _ => PromptFiles::read(&folder, Links::Follow),
    };
    let taken = match origin != Origin::Default && !files.is_there() {
        true => Err(vec![not_there(origin, &folder)]),
        false => settings.take(&files),
    };
    taken.map_err(|faults| CliError::usage(ConfigErrors(faults).to_string()))?;
    let is_protected = beside.is_protected && settings.folder == Path::new(DEFAULT_FOLDER);
    settings.private = Some(folder).filter(|_| !is_protected && !files.is_empty());
    Ok(())
}

fn not_there(origin: Origin, folder: &Path) -> ConfigFault {
    ConfigFault {
        path: "prompts.folder".to_owned(),
        source: origin,
        problem: format!("names '{}', which is no folder", folder.display()),
        allowed: "a folder, from the folder of the settings file".to_owned(),
    }
}

#[cfg(test)]
mod tests;
