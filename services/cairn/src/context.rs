//! What every command has at hand.

use crate::settings::Settings;
use cairn_boot::{Environment, Loaded};
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// What every command has at hand. Commands get it by reference and share it nowhere.
#[derive(Debug)]
pub struct Context {
    /// The settings, checked, with the origin of each.
    pub settings: Loaded<Settings>,
    /// The file that they come from, if it is there.
    pub file: PathBuf,
    /// The file of the settings that `--config` names, as it was typed.
    pub given_file: Option<PathBuf>,
    /// Whether all of that file counts; see [`crate::settings::trust`].
    pub is_confirmed: bool,
    /// The file has hooks, and they do not count because it is not confirmed.
    pub lacks_hooks: bool,
    /// The environment of the process, read once.
    pub environment: Environment,
    /// `--json`: one JSON object a line on standard output, and nothing else there.
    pub json: bool,
    /// Whether standard output takes colours.
    pub color: bool,
    /// Whether standard output is a terminal and the person is shown a live display.
    pub live: bool,
    /// The first Ctrl-C; the second ends the process at once.
    pub stop: CancellationToken,
}

impl Context {
    /// The settings.
    pub fn config(&self) -> &Settings {
        &self.settings.config
    }
}
