//! The tools by name, from all sources, as they are now.

use crate::error::{RegisterError, ToolError};
use crate::schema::Schema;
use crate::source::{AllowError, Listed, Listing, SourceState, ToolSource};
use crate::tool::{Tool, ToolSpec};
use cairn_engine::key::{digest, hex};
use cairn_engine::text::counted;
use futures::StreamExt as _;
use futures::stream::SelectAll;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_util::task::AbortOnDropHandle;

/// Most bytes of the descriptions and schemas of all tools: a list has to fit into a message.
const MOST_BYTES: usize = 2 << 20;
/// How long sources may take to read again what others may have changed: a disk may stall.
const REFRESH: Duration = Duration::from_secs(1);
/// Names of an unknown tool's error message, so that a large catalogue does not fill the context.
const NAMES_IN_ERROR: usize = 30;

/// A tool with its compiled schema.
#[derive(Clone)]
pub struct Entry {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) schema: Arc<Schema>,
    /// Covers all that it is judged by.
    pub(crate) digest: String,
    /// Why it cannot be called now, if it cannot.
    pub(crate) disabled: Option<String>,
}

impl Entry {
    fn new(listed: Listed) -> Result<Self, RegisterError> {
        let spec = listed.tool.spec();
        if !is_name(&spec.name) {
            return Err(RegisterError::Name(spec.name.clone()));
        }
        let schema = match spec.is_trusted {
            true => Schema::compile(&spec.parameters),
            false => Schema::of_server(&spec.parameters),
        };
        let schema = schema.map_err(|problem| RegisterError::Schema {
            tool: spec.name.clone(),
            problem,
        })?;
        Ok(Self {
            digest: spec.digest(),
            schema: Arc::new(schema),
            tool: listed.tool,
            disabled: listed.disabled,
        })
    }

    /// What is known of the tool.
    pub fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("spec", self.spec()).finish()
    }
}

/// A source at one moment.
#[derive(Debug, Clone)]
pub(crate) struct SourceReport {
    pub(crate) name: String,
    pub(crate) place: String,
    pub(crate) digest: String,
    pub(crate) state: SourceState,
    pub(crate) left_out: Vec<String>,
}

/// All tools at one moment, in the order of their names.
#[derive(Debug, Default)]
pub struct Snapshot {
    entries: BTreeMap<String, Entry>,
    pub(crate) sources: Vec<SourceReport>,
    /// Covers the tools, which of them can be called, and the settings. Not the states of sources: those differ
    /// between replicas.
    pub(crate) digest: String,
    /// What the settings say beside the tools.
    settings: Arc<str>,
}

impl Snapshot {
    /// What the sources list now. What was compiled for the last snapshot is taken from there.
    fn of(sources: &[Arc<dyn ToolSource>], last: &Self) -> Self {
        let mut snapshot = Self {
            settings: last.settings.clone(),
            ..Self::default()
        };
        let listings = sources
            .iter()
            .map(|source| source.listing().borrow().clone());
        let listings: Vec<_> = listings.collect();
        let shares = shares(&listings);
        for ((source, listing), share) in sources.iter().zip(&listings).zip(shares) {
            let mut left_out = listing.left_out.clone();
            let (mut bytes, mut too_many) = (0, 0);
            for listed in &listing.tools {
                bytes += listed.tool.spec().bytes();
                if bytes > share {
                    too_many += 1;
                    continue;
                }
                let added = snapshot.add(listed, last);
                left_out.extend(added.err().map(|error| error.to_string()));
            }
            if too_many > 0 {
                left_out.push(format!(
                    "{} left out, as all descriptions and schemas together have at most \
                     {MOST_BYTES} bytes",
                    counted(too_many, "tool")
                ));
            }
            snapshot.sources.push(SourceReport {
                name: source.name().to_owned(),
                place: source.place(),
                digest: source.digest(),
                state: listing.state.clone(),
                left_out,
            });
        }
        let tools = snapshot.entries.values();
        let tools = tools.map(|entry| format!("{} {}\n", entry.digest, entry.disabled.is_some()));
        let text: String = tools.collect();
        snapshot.digest = hex(&digest(&[text.as_bytes(), snapshot.settings.as_bytes()]));
        snapshot
    }

    fn add(&mut self, listed: &Listed, last: &Self) -> Result<(), RegisterError> {
        let name = &listed.tool.spec().name;
        if self.entries.contains_key(name) {
            return Err(RegisterError::Duplicate(name.clone()));
        }
        let known = last.entries.get(name);
        let entry = match known.filter(|known| Arc::ptr_eq(&known.tool, &listed.tool)) {
            Some(known) => Entry {
                disabled: listed.disabled.clone(),
                ..known.clone()
            },
            None => Entry::new(listed.clone())?,
        };
        self.entries.insert(name.clone(), entry);
        Ok(())
    }

    /// The tool named `name`.
    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// The tools in the order of their names, the same every time.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }
}

/// How many bytes each source may have: what small ones leave is for the larger ones.
fn shares(listings: &[Arc<Listing>]) -> Vec<usize> {
    let bytes = |listing: &Arc<Listing>| {
        let tools = listing.tools.iter();
        tools.map(|it| it.tool.spec().bytes()).sum::<usize>()
    };
    let wanted: Vec<usize> = listings.iter().map(bytes).collect();
    let mut by_size: Vec<usize> = (0..wanted.len()).collect();
    by_size.sort_by_key(|at| wanted[*at]);
    let mut shares = vec![0; wanted.len()];
    let mut room = MOST_BYTES;
    for (before, at) in by_size.into_iter().enumerate() {
        shares[at] = wanted[at].min(room / (shares.len() - before));
        room -= shares[at];
    }
    shares
}

/// The tools of all sources. They change while it is read: each [`Self::now`] is one moment.
pub struct ToolRegistry {
    sources: Arc<[Arc<dyn ToolSource>]>,
    latest: Arc<Latest>,
    now: watch::Receiver<Arc<Snapshot>>,
    _follow: AbortOnDropHandle<()>,
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolRegistry").finish_non_exhaustive()
    }
}

impl ToolRegistry {
    /// Follows the sources. Where two have tools of one name, the earlier source keeps it. `settings` are what the
    /// digest of a list covers besides. Needs a tokio runtime.
    pub fn follow(sources: Vec<Arc<dyn ToolSource>>, settings: &str) -> Self {
        let sources: Arc<[_]> = sources.into();
        // Before the first look, so that no change after it is missed.
        let changes = sources
            .iter()
            .map(|source| WatchStream::from_changes(source.listing()));
        let mut changes: SelectAll<WatchStream<Arc<Listing>>> = changes.collect();
        let before = Snapshot {
            settings: settings.into(),
            ..Snapshot::default()
        };
        let first = Arc::new(Snapshot::of(&sources, &before));
        let (sender, now) = watch::channel(first);
        let latest = Arc::new(Latest {
            sender,
            making: Mutex::default(),
        });
        let (followed, updated) = (sources.clone(), latest.clone());
        let follow = tokio::spawn(async move {
            while changes.next().await.is_some() {
                updated.update(&followed);
            }
        });
        Self {
            sources,
            latest,
            now,
            _follow: AbortOnDropHandle::new(follow),
        }
    }

    /// The tools at this moment.
    pub fn now(&self) -> Arc<Snapshot> {
        self.now.borrow().clone()
    }

    /// Has the sources read again what other processes may have changed, if that takes no longer than
    /// [`REFRESH`].
    pub(crate) async fn refresh(&self) {
        let (sources, latest) = (self.sources.clone(), self.latest.clone());
        let read = tokio::task::spawn_blocking(move || {
            let changed = sources.iter().filter(|source| source.refresh()).count();
            if changed > 0 {
                latest.update(&sources);
            }
        });
        // What is read later is seen later.
        _ = tokio::time::timeout(REFRESH, read).await;
    }

    /// The first moment at which the digest is not `known`.
    pub(crate) async fn after(&self, known: &str) -> Arc<Snapshot> {
        let mut now = self.now.clone();
        match now.wait_for(|snapshot| snapshot.digest != known).await {
            Ok(snapshot) => snapshot.clone(),
            Err(_) => self.now(),
        }
    }

    /// Whether there is such a tool, which cannot be called now.
    pub(crate) fn is_disabled(&self, name: &str) -> bool {
        let now = self.now();
        now.find(name).is_some_and(|entry| entry.disabled.is_some())
    }

    /// Waits until there is a tool of that name, if its server is being started. One that cannot be reached
    /// from here may be reached from another replica.
    pub(crate) async fn found(&self, name: &str) {
        let owner = self.sources.iter().find(|source| source.owns(name));
        let state = owner.map(|owner| owner.listing().borrow().state.clone());
        if state != Some(SourceState::Starting) {
            return;
        }
        let mut now = self.now.clone();
        // Nothing is found any more once it ends.
        _ = now.wait_for(|snapshot| snapshot.find(name).is_some()).await;
    }

    /// Why the tool of that name is not here, if a source that it would belong to is out of reach.
    pub(crate) fn missing(&self, name: &str) -> Option<String> {
        let owner = self.sources.iter().find(|source| source.owns(name))?;
        let listing = owner.listing().borrow().clone();
        match &listing.state {
            SourceState::Ready => None,
            SourceState::Starting => Some(format!("server '{}' is being started", owner.name())),
            SourceState::NotAllowed(why) | SourceState::Unreachable(why) => Some(format!(
                "server '{}' cannot be reached: {why}",
                owner.name()
            )),
        }
    }

    /// Allows a source, or a tool of it.
    ///
    /// # Errors
    /// Those of [`ToolSource::allow`].
    pub(crate) async fn allow(
        &self,
        name: &str,
        digest: &str,
    ) -> Result<Option<String>, AllowError> {
        for source in self.sources.iter() {
            if let Some(allowed) = source.allow(name, digest).await? {
                return Ok(Some(allowed));
            }
        }
        Ok(None)
    }
}

/// The latest snapshot.
struct Latest {
    sender: watch::Sender<Arc<Snapshot>>,
    /// Held while one is made, so that an older look never replaces a newer one. Readers do not wait for that.
    making: Mutex<()>,
}

impl Latest {
    /// Takes what the sources list now.
    fn update(&self, sources: &[Arc<dyn ToolSource>]) {
        let making = self.making.lock();
        let _making = making.unwrap_or_else(PoisonError::into_inner);
        let last = self.sender.borrow().clone();
        let next = Arc::new(Snapshot::of(sources, &last));
        let differs = last.digest != next.digest;
        self.sender.send_if_modified(|now| {
            *now = next;
            differs
        });
    }
}

/// Whether these tools can all be had by their names.
///
/// # Errors
/// The first that cannot.
pub(crate) fn check(tools: &[Arc<dyn Tool>]) -> Result<(), RegisterError> {
    let mut snapshot = Snapshot::default();
    for tool in tools {
        snapshot.add(&Listed::enabled(tool.clone()), &Snapshot::default())?;
    }
    Ok(())
}

/// Whether `name` is one that model providers accept.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// The error for a name that is none of `known`.
pub(crate) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> ToolError {
    let known: Vec<&str> = known.collect();
    let shown = crate::text::brief(name, 80);
    let mut message = format!("there is no tool '{}'", shown.escape_debug());
    if let Some(near) = nearest(name, &known) {
        message.push_str(&format!("; did you mean '{near}'?"));
    }
    if known.is_empty() {
        message.push_str("; there are no tools at all");
    } else {
        message.push_str("; tools: ");
        message.push_str(&known[..known.len().min(NAMES_IN_ERROR)].join(", "));
        if known.len() > NAMES_IN_ERROR {
            message.push_str(&format!(" and {} more", known.len() - NAMES_IN_ERROR));
        }
    }
    ToolError::NotFound(message)
}

/// The one of `known` that `name` was most likely meant to be, if any is near at all.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // A name far longer than any allowed one is near nothing, and costly to compare.
    if name.len() > 128 {
        return None;
    }
    let folded = name.to_lowercase();
    known
        .iter()
        .map(|other| (strsim::jaro_winkler(&folded, &other.to_lowercase()), *other))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests;
