//! How a process starts and stops.
//!
//! In the order in which `main` needs them:
//!
//! | module | gives |
//! |---|---|
//! | [`config`] | defaults < file < environment < flags into one validated struct, or all faults at once |
//! | [`logs`] | one event, one line, on standard error |
//! | [`telemetry`] | the one subscriber: logs, and traces to a collector; metrics over HTTP |
//! | [`signals`] | the first signal asks to stop, the second insists |
//! | [`mod@drain`] | lets running work end, but not for ever |
//! | [`state`] | the folder of a user in which Cairn keeps its own files |
//! | [`trust`] | what a person has confirmed: settings files, files of workspaces, servers, tools |

pub mod config;
pub mod drain;
pub mod logs;
pub mod signals;
pub mod state;
pub mod telemetry;
pub mod trust;

pub use config::{
    Checks, ConfigErrors, ConfigFault, Document, Environment, Layers, Loaded, Origin, Secret,
    Settings,
};
pub use drain::{Drained, drain};
pub use logs::{LogConfig, LogFormat};
pub use signals::Signals;
pub use state::state_folder;
pub use telemetry::{MetricsAddress, Telemetry, TelemetryConfig};
pub use trust::{Pins, Trust, TrustError, file_key};
