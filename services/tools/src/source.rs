//! Where tools come from. A source lists its tools and says when the list changes.

use crate::tool::Tool;
use async_trait::async_trait;
use cairn_rpc::RpcError;
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// A place that tools come from: the built-in ones, programs, a server.
#[async_trait]
pub trait ToolSource: Send + Sync + 'static {
    /// Unique among the sources of a process.
    fn name(&self) -> &str;

    /// The program or the address, without secrets; empty for tools of this process.
    fn place(&self) -> String {
        String::new()
    }

    /// The digest of its settings, which an allowance names; empty if it needs none.
    fn digest(&self) -> String {
        String::new()
    }

    /// What it has now, and each change of that. The last listing of a source that is out of reach stays:
    /// its tools then refuse calls as unreachable.
    fn listing(&self) -> watch::Receiver<Arc<Listing>>;

    /// Reads again what other processes may have changed, such as a trust file that replicas share. Returns
    /// whether its list is another one now. May block.
    fn refresh(&self) -> bool {
        false
    }

    /// Whether a tool of that name would be its own, also while it lists none.
    fn owns(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// A person allows it, or its tool of that name as it is now. Returns the digest that is allowed;
    /// `None` if it knows no such name. The allowance is durable by then, where allowances are kept.
    ///
    /// # Errors
    /// The allowance cannot be kept, or `digest` is not empty and not the current one.
    async fn allow(&self, name: &str, digest: &str) -> Result<Option<String>, AllowError> {
        let _ = (name, digest);
        Ok(None)
    }
}

/// Why nothing was allowed.
#[derive(Debug, thiserror::Error)]
pub enum AllowError {
    /// It is another one now than the person has seen.
    #[error("'{name}' has changed since it was shown; its digest is now {digest}")]
    Changed {
        /// The server or the tool.
        name: String,
        /// What it has now.
        digest: String,
    },
    /// It cannot be kept.
    #[error("the allowance cannot be stored: {0}")]
    NotKept(String),
    /// Memory did not say that it is stored.
    #[error("the allowance may not be stored: {0}; allow it again")]
    Memory(#[from] RpcError),
}

/// What a source has.
#[derive(Clone, Default)]
pub struct Listing {
    /// Its tools.
    pub tools: Vec<Listed>,
    /// What can be had of it.
    pub state: SourceState,
    /// Tools that cannot be used, each with the reason: in words for a person.
    pub left_out: Vec<String>,
}

/// A tool of a listing.
#[derive(Clone)]
pub struct Listed {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// Why it cannot be called now, if it cannot.
    pub disabled: Option<String>,
}

impl Listed {
    /// A tool that can be called.
    pub fn enabled(tool: Arc<dyn Tool>) -> Self {
        Self {
            tool,
            disabled: None,
        }
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.tools.iter().map(|listed| &listed.tool.spec().name);
        f.debug_struct("Listing")
            .field("tools", &names.collect::<Vec<_>>())
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listed")
            .field(&self.tool.spec().name)
            .finish()
    }
}

/// What can be had of a source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SourceState {
    /// Its tools can be called.
    #[default]
    Ready,
    /// It is being started, or connected to, and is worth a wait: no longer than its limit.
    Starting,
    /// It is not started before a person allows it: why.
    NotAllowed(String),
    /// It cannot be reached, and is tried again: why.
    Unreachable(String),
}

/// A source whose tools never change.
#[derive(Debug)]
pub struct FixedSource {
    name: &'static str,
    listing: watch::Receiver<Arc<Listing>>,
}

impl FixedSource {
    /// A source of these tools.
    pub fn new(name: &'static str, tools: Vec<Arc<dyn Tool>>) -> Self {
        Self::of(name, tools.into_iter().map(Listed::enabled).collect())
    }

    /// The same with tools that cannot be called.
    pub fn of(name: &'static str, tools: Vec<Listed>) -> Self {
        let listing = Listing {
            tools,
            ..Listing::default()
        };
        // The last value of a channel outlives its sender.
        let (_, listing) = watch::channel(Arc::new(listing));
        Self { name, listing }
    }
}

impl ToolSource for FixedSource {
    fn name(&self) -> &str {
        self.name
    }

    fn listing(&self) -> watch::Receiver<Arc<Listing>> {
        self.listing.clone()
    }
}
