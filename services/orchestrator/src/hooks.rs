//! The hooks that there are: those of the settings, and those that clients stored.
//!
//! A run records names and digests of its hooks, never a command or an address. What a name means comes from here,
//! whenever the hook is asked. A hook of the settings goes before a stored one of its name.

mod definition;

pub(crate) use definition::{check_name, message, read};

use crate::config::Config;
use crate::store::{Store, for_namespace};
use cairn_engine::conversation::Conversation;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::hooks::{
    HookFailure, PinnedHook, Point, PresentHook, PresentHooks, Verdict, fault_of,
};
use cairn_engine::key::{digest, hex};
use cairn_hooks::{AddressPattern, Asked, Definition, Failed, Hook, HookExecutor, Means, Policy};
use cairn_proto::api as pb;
use cairn_proto::memory::{Document, DocumentKind, HookDocument, ListDocumentsRequest};
use cairn_rpc::{Namespace, RpcError};
use prost::Message as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Documents of one page of a list. A namespace has fewer, unless many were deleted lately.
const PAGE: u32 = 1000;
/// Reason of memory: a list cannot continue, and is to be read from its beginning.
const RELIST: &str = "RELIST";

/// The hooks of the settings, and how stored ones are asked.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    executor: Option<Arc<dyn HookExecutor>>,
    /// In the order in which they are asked.
    configured: Vec<Configured>,
    /// The same as runs choose them.
    present: PresentHooks,
    /// What the addresses of stored hooks have to match; without any, no hook is stored.
    addresses: Vec<AddressPattern>,
}

/// A hook of the settings.
#[derive(Debug)]
pub(crate) struct Configured {
    pub(crate) definition: Definition,
    pub(crate) digest: String,
    /// None in a process that asks no hooks.
    hook: Option<Arc<dyn Hook>>,
}

/// A document of a namespace.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) document: Document,
    /// Its hook, or why no run asks it.
    pub(crate) hook: Result<Definition, Unusable>,
}

/// Why no run asks a stored hook.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// The settings do not allow its address any more. The definition is there for people.
    NotAllowed(Box<Definition>),
    /// Another version stored it. Runs wait for it, because a hook can forbid what they do.
    Unreadable(String),
}

/// What there is of a hook that a run has to ask.
#[derive(Debug)]
pub(crate) enum Resolved {
    /// It is as the run recorded it.
    Ready(Ready),
    /// It is not there.
    Missing,
    /// It has another digest.
    Changed,
}

/// A hook that can be asked.
#[derive(Debug)]
pub(crate) struct Ready {
    hook: Arc<dyn Hook>,
    policy: Policy,
}

impl Ready {
    /// Asks it. An answer that its point does not take, or that does not fit the conversation of the next request, is a
    /// failure of the hook. Returns what counts, the failure of the hook if it failed, and how long it took.
    pub(crate) async fn ask(
        &self,
        asked: &Asked,
        next: Option<&Conversation>,
    ) -> (Verdict, Option<Failed>, Duration) {
        let (verdict, failed, took) = cairn_hooks::ask(&*self.hook, &self.policy, asked).await;
        let point = asked.question.gate.point;
        // What counts after a failure is not the hook's.
        let wrong = match failed {
            None => fault_of(point, &verdict, next),
            Some(_) => None,
        };
        let Some(why) = wrong else {
            return (verdict, failed, took);
        };
        tracing::warn!(
            hook = asked.hook,
            point = point.name(),
            error = why,
            "hook failed"
        );
        let verdict = self.policy.after_failure(point, &why);
        let kind = HookFailure::Wrong;
        (verdict, Some(Failed { kind, why }), took)
    }
}

impl Config {
    /// Finds what hooks of the settings lack.
    ///
    /// # Errors
    /// `Config` if there is nothing to ask hooks with, if a hook of this process is not registered, or if a pattern of
    /// addresses cannot be read.
    pub fn check_hooks(&self) -> Result<(), Failure> {
        let unread = |pattern: &&String| AddressPattern::new(pattern).is_none();
        if let Some(pattern) = self.hook_addresses.iter().find(unread) {
            let message = format!(
                "hook_addresses has \"{pattern}\"; allowed: http or https, a host and a port, of which labels of the \
                 host and the port may be *, such as \"https://*.example.org:*\""
            );
            return Err(Failure::new(FailureKind::Config, "hook_addresses", message));
        }
        let Some(executor) = &self.hook_executor else {
            return match self.hooks.is_empty() && self.hook_addresses.is_empty() {
                true => Ok(()),
                false => Err(Failure::missing("hook_executor")),
            };
        };
        for hook in &self.hooks {
            let is_here = hook.means == Means::InProcess;
            if is_here && executor.in_process(&hook.name).is_none() {
                let message = format!(
                    "hook \"{}\" has neither a command nor a url, and this process has no hook of that name",
                    hook.name
                );
                return Err(Failure::new(FailureKind::Config, "missing", message));
            }
        }
        Ok(())
    }
}

impl Hooks {
    /// Of checked settings. Must be called inside a tokio runtime.
    pub(crate) fn new(config: &Config) -> Self {
        let executor = config.hook_executor.clone();
        let configured = config.hooks.iter().map(|definition| Configured {
            definition: definition.clone(),
            digest: definition.digest(),
            hook: executor
                .as_deref()
                .and_then(|executor| definition.hook(executor)),
        });
        let present = config.hooks.iter().map(Definition::present);
        let patterns = config.hook_addresses.iter();
        Self {
            configured: configured.collect(),
            present: PresentHooks(present.collect()),
            addresses: patterns.filter_map(|it| AddressPattern::new(it)).collect(),
            executor,
        }
    }

    /// Those of the settings, as runs choose them.
    pub(crate) fn of_settings(&self) -> &PresentHooks {
        &self.present
    }

    /// Those of the settings, in the order in which they are asked.
    pub(crate) fn configured(&self) -> &[Configured] {
        &self.configured
    }

    /// The settings let clients store hooks.
    pub(crate) fn may_be_stored(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// A client may store a hook with this address.
    pub(crate) fn allows(&self, url: &str) -> bool {
        self.addresses.iter().any(|pattern| pattern.matches(url))
    }

    /// The patterns of allowed addresses, for people.
    pub(crate) fn allowed(&self) -> String {
        let patterns: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        patterns.join(", ")
    }

    /// The hooks that runs of a namespace choose from, in the order in which they are asked. A stored hook that cannot
    /// be read is among them, so that runs wait for it: without it, they could do what it forbids.
    ///
    /// # Errors
    /// The store cannot be reached.
    pub(crate) async fn present(
        &self,
        store: &Store,
        namespace: &Namespace,
    ) -> Result<PresentHooks, RpcError> {
        let mut present = self.present.clone();
        if !self.may_be_stored() {
            return Ok(present);
        }
        let stored = self.stored(store, namespace).await?;
        for stored in stored.into_values() {
            match &stored.hook {
                Ok(definition) => present.0.push(definition.present()),
                Err(Unusable::Unreadable(_)) => present.0.push(unreadable(&stored.document)),
                Err(Unusable::NotAllowed(_)) => {}
            }
        }
        Ok(present)
    }

    /// The stored hooks of a namespace by their names, without those whose names the settings have.
    ///
    /// # Errors
    /// The store cannot be reached.
    pub(crate) async fn stored(
        &self,
        store: &Store,
        namespace: &Namespace,
    ) -> Result<BTreeMap<String, Stored>, RpcError> {
        let mut documents = documents(store, namespace).await?;
        let configured: BTreeSet<&str> = self.configured.iter().map(Configured::name).collect();
        documents.retain(|name, _| !configured.contains(name.as_str()));
        let read = documents.into_iter().map(|(name, document)| {
            let hook = self.read(&document);
            (name, Stored { document, hook })
        });
        Ok(read.collect())
    }

    /// What a document defines.
    pub(crate) fn read(&self, document: &Document) -> Result<Definition, Unusable> {
        let definition = decoded(document).map_err(Unusable::Unreadable)?;
        match &definition.means {
            Means::Host(url) if self.allows(url) => Ok(definition),
            _ => Err(Unusable::NotAllowed(Box::new(definition))),
        }
    }

    /// What there is of the hooks that a run has to ask, in their order. Documents are read only if one of the hooks is
    /// none of the settings.
    ///
    /// # Errors
    /// The store cannot be reached.
    pub(crate) async fn resolve(
        &self,
        store: &Store,
        namespace: &Namespace,
        pins: &[PinnedHook],
    ) -> Result<Vec<Resolved>, RpcError> {
        let is_stored = |pin: &PinnedHook| self.configured_as(&pin.name).is_none();
        let stored = match self.may_be_stored() && pins.iter().any(is_stored) {
            true => self.stored(store, namespace).await?,
            false => BTreeMap::new(),
        };
        let resolved = pins.iter().map(|pin| match self.configured_as(&pin.name) {
            Some(configured) => configured.resolved(pin),
            None => self.resolved(pin, stored.get(&pin.name)),
        });
        Ok(resolved.collect())
    }

    fn resolved(&self, pin: &PinnedHook, stored: Option<&Stored>) -> Resolved {
        let definition = stored.and_then(|stored| stored.hook.as_ref().ok());
        let Some((definition, executor)) = definition.zip(self.executor.as_deref()) else {
            return Resolved::Missing;
        };
        if definition.digest() != pin.digest {
            return Resolved::Changed;
        }
        match definition.hook(executor) {
            Some(hook) => Resolved::Ready(Ready {
                hook,
                policy: definition.policy,
            }),
            None => Resolved::Missing,
        }
    }

    /// The hook of the settings with that name.
    pub(crate) fn configured_as(&self, name: &str) -> Option<&Configured> {
        self.configured.iter().find(|it| it.name() == name)
    }
}

impl Configured {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn resolved(&self, pin: &PinnedHook) -> Resolved {
        match &self.hook {
            _ if self.digest != pin.digest => Resolved::Changed,
            Some(hook) => Resolved::Ready(Ready {
                hook: Arc::clone(hook),
                policy: self.definition.policy,
            }),
            None => Resolved::Missing,
        }
    }
}

/// The documents of the kind by their ids.
async fn documents(
    store: &Store,
    namespace: &Namespace,
) -> Result<BTreeMap<String, Document>, RpcError> {
    let mut found = BTreeMap::new();
    let mut after = None;
    loop {
        let list = ListDocumentsRequest {
            kind: DocumentKind::Hook.into(),
            after: after.take(),
            page_size: PAGE,
        };
        let mut client = store.documents();
        let page = match client.list_documents(for_namespace(namespace, list)).await {
            Ok(page) => page.into_inner(),
            Err(status) => {
                let error = RpcError::from_status(&status);
                if error.reason_name() != RELIST {
                    return Err(error);
                }
                found.clear();
                continue;
            }
        };
        for document in page.documents {
            match document.deleted {
                true => found.remove(&document.id),
                false => found.insert(document.id.clone(), document),
            };
        }
        if page.is_last {
            return Ok(found);
        }
        after = page.position;
    }
}

/// # Errors
/// Why this version cannot read it.
fn decoded(document: &Document) -> Result<Definition, String> {
    let other_form = |_| "it is stored in another form".to_owned();
    let stored = HookDocument::decode(document.value.clone()).map_err(other_form)?;
    let asked = pb::HookDefinition::decode(stored.definition.as_slice()).map_err(other_form)?;
    let definition = read("", &asked).map_err(|error| error.to_string())?;
    match definition.name == document.id {
        true => Ok(definition),
        false => Err("it has the name of another hook".to_owned()),
    }
}

/// A stored hook that cannot be read, as runs choose it: they wait for it before they do anything.
fn unreadable(document: &Document) -> PresentHook {
    PresentHook {
        pin: PinnedHook {
            name: document.id.clone(),
            digest: hex(&digest(&[b"cairn.hook.unreadable", &document.value])),
            points: [Point::OnRunStart].into_iter().collect(),
            tools: Vec::new(),
        },
        agents: None,
    }
}

#[cfg(test)]
mod tests;
