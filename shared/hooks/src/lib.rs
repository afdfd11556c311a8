//! How hooks are asked.
//!
//! A run asks its hooks at points that the engine names ([`cairn_engine::hooks`]). Three kinds of hooks answer: parts
//! of this process, programs, and services of users. All of them are a [`Hook`], and [`ask`] puts the same limits on
//! each: a timeout, repetitions while the hook cannot be reached, and what counts if it fails.
//!
//! | module | gives |
//! |---|---|
//! | `policy` | [`ask`], [`Policy`], [`OnError`], [`Failed`]: how long, how often, and what counts after a failure |
//! | `definition` | [`Definition`]: what makes a hook the same hook, and its digest |
//! | `fault` | [`Fault`]: what is wrong with a definition |
//! | `system` | [`SystemHooks`]: asks all three kinds by the means of this process |
//! | `in_process` | a hook of this process, whose panic harms nothing else |
//! | `program` | a program: the question on standard input, the answer by output and status |
//! | `address` | [`AddressPattern`]: the addresses at which clients may store hooks |
//! | `host` | [`HostUrl`], a service that implements `cairn.hook.v1.HookHostService` |

mod address;
mod definition;
mod fault;
mod host;
mod in_process;
mod policy;
mod program;
mod system;
#[cfg(test)]
mod testing;

pub use address::AddressPattern;
pub use definition::{Definition, Means};
pub use fault::{Fault, FaultKind, fault_of_name, point_names, timeouts};
pub use host::{HostUrl, HostUrlError};
pub use policy::{
    DEFAULT_TIMEOUT, Failed, LONGEST_TIMEOUT, OnError, Policy, REACHED_WITHIN, SHORTEST_TIMEOUT,
    ask,
};
pub use program::ProgramConfig;
pub use system::SystemHooks;

use async_trait::async_trait;
use cairn_engine::hooks::{Question, Verdict};
use cairn_rpc::trace::TraceParent;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// One question to one hook.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Identifies the question; see [`Gate::key`](cairn_engine::hooks::Gate::key). Every repetition has the same key.
    pub key: String,
    /// The namespace of the session.
    pub namespace: String,
    /// The id of the session.
    pub session: String,
    /// The name of the hook.
    pub hook: String,
    /// What is asked, with the changes of the hooks before this one.
    pub question: Question,
    /// The trace that the question belongs to.
    pub trace: Option<TraceParent>,
}

/// Answers questions of runs.
///
/// The same question may come again, with the same key, after a crash or a lost answer. An answer that the point does
/// not take is a failure of the hook.
#[async_trait]
pub trait Hook: Send + Sync + fmt::Debug {
    /// Answers one question. When the timeout of the hook has passed, the call is dropped.
    ///
    /// # Errors
    /// There is no answer.
    async fn ask(&self, asked: &Asked) -> Result<Verdict, HookError>;
}

#[async_trait]
impl<H: Hook + ?Sized> Hook for Arc<H> {
    async fn ask(&self, asked: &Asked) -> Result<Verdict, HookError> {
        (**self).ask(asked).await
    }
}

/// Why a hook gave no answer. The words follow "hook NAME: ".
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HookError {
    /// It was certainly not asked, or its answer was lost, and it may be reached later.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// What came is no answer, the question cannot be sent, or there is no program to run. Another try would give the
    /// same.
    #[error("{0}")]
    Wrong(String),
}

/// Makes hooks of what the settings and the documents of a namespace name.
pub trait HookExecutor: Send + Sync + fmt::Debug {
    /// The hook of this process that is registered under the name; none if there is none.
    fn in_process(&self, name: &str) -> Option<Arc<dyn Hook>>;

    /// A hook that starts a program for each question. `timeout` is how long one answer may take.
    fn program(&self, config: &ProgramConfig, timeout: Duration) -> Arc<dyn Hook>;

    /// A hook that calls a service; see [`HostUrl`] for addresses. With another text, every answer is an error.
    /// `timeout` is how long one answer may take.
    ///
    /// Must be called inside a tokio runtime.
    fn host(&self, url: &str, timeout: Duration) -> Arc<dyn Hook>;
}
