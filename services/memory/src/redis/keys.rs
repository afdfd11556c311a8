//! Names of keys and channels.
//!
//! Everything of a session, and the queues that it can be in, have the tag of its partition, so
//! that one script may touch them all on a cluster too. The names of keys are part of the format.
//!
//! A channel has the store's id in its name: the databases of a server share all channels, and two
//! stores in two databases may have the same prefix and sessions of the same name.

use crate::port::{Collection, DocumentKind, SessionKey};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// Partitions of a store; part of the format.
pub(super) const PARTITIONS: u16 = 256;

/// The partition of a session: the first byte of the SHA-256 of `namespace/session`.
pub(super) fn partition(key: &SessionKey) -> u16 {
    partition_of(key.namespace(), key.session())
}

/// The partition of what has a name in a namespace; of a collection the name of its kind.
fn partition_of(namespace: &str, name: &str) -> u16 {
    let digest = Sha256::new()
        .chain_update(namespace)
        .chain_update("/")
        .chain_update(name)
        .finalize();
    u16::from(digest[0])
}

/// How a session is called in the queues of its partition.
pub(super) fn member(key: &SessionKey) -> String {
    format!("{}/{}", key.namespace(), key.session())
}

/// The session of a member of a queue; `None` if it is none that was ever put there.
pub(super) fn session_of(member: &str) -> Option<SessionKey> {
    let (namespace, session) = member.split_once('/')?;
    Some(SessionKey::new(namespace, session))
}

/// The collection of a member of [`Partition::buried`]; `None` if it is none that was ever put there.
pub(super) fn collection_of(member: &str) -> Option<Collection> {
    let (namespace, kind) = member.split_once('/')?;
    Some(Collection::new(namespace, DocumentKind::from_name(kind)?))
}

/// The namespace of a member of a queue.
pub(super) fn namespace_of(member: &str) -> &str {
    member
        .split_once('/')
        .map_or("", |(namespace, _)| namespace)
}

/// The names of a store, which begin with its prefix.
#[derive(Debug, Clone)]
pub(super) struct Names {
    prefix: String,
    store: Arc<str>,
}

impl Names {
    /// The names of the store with this id.
    pub(super) fn new(prefix: &str, store: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            store: store.into(),
        }
    }

    /// The names of a store whose id is not known yet. Its channels are no other store's either.
    pub(super) fn unopened(prefix: &str) -> Self {
        Self::new(prefix, "")
    }

    /// What a user's rights to keys and channels have to cover.
    pub(super) fn pattern(&self) -> String {
        format!("{}:*", self.prefix)
    }

    /// What the store is: format, partitions, id. It has the tag of partition 0, to be found on a
    /// cluster as everything else is.
    pub(super) fn meta(&self) -> String {
        format!("{}:{{p000}}:meta", self.prefix)
    }

    /// The names of a partition.
    pub(super) fn partition(&self, number: u16) -> Partition {
        Partition {
            number,
            base: format!("{}:{{p{number:03x}}}", self.prefix),
            store: self.store.clone(),
        }
    }

    /// The names of a session.
    pub(super) fn session(&self, key: &SessionKey) -> Session {
        let partition = self.partition(partition(key));
        let member = member(key);
        Session {
            base: format!("{}:s:{member}", partition.base),
            partition,
            member,
        }
    }

    /// The names of a collection.
    pub(super) fn collection(&self, collection: &Collection) -> CollectionNames {
        let (namespace, kind) = (collection.namespace(), collection.kind().name());
        let partition = self.partition(partition_of(namespace, kind));
        let member = format!("{namespace}/{kind}");
        CollectionNames {
            base: format!("{}:d:{member}", partition.base),
            partition,
            member,
        }
    }

    /// The store's id.
    pub(super) fn store(&self) -> &str {
        &self.store
    }
}

/// The names of a partition.
#[derive(Debug, Clone)]
pub(super) struct Partition {
    pub(super) number: u16,
    base: String,
    store: Arc<str>,
}

impl Partition {
    /// What decides about the slot on a cluster.
    pub(super) fn tag(&self) -> String {
        format!("p{:03x}", self.number)
    }

    /// Sessions by the end of their lease.
    pub(super) fn leases(&self) -> String {
        format!("{}:leases", self.base)
    }

    /// Sessions that nobody owns, by the time from which they can be claimed.
    pub(super) fn due(&self) -> String {
        format!("{}:due", self.base)
    }

    /// Sessions that could be claimed, and that a claimer met whose level was too low: by what they need,
    /// and then by the time from which they could be claimed.
    pub(super) fn newer(&self) -> String {
        format!("{}:newer", self.base)
    }

    /// Living sessions that wait for what no resource has, owned or not, by the time since when they do.
    pub(super) fn waiting(&self) -> String {
        format!("{}:waiting", self.base)
    }

    /// Sessions that were quarantined, by the time of that.
    pub(super) fn aside(&self) -> String {
        format!("{}:aside", self.base)
    }

    /// Living sessions without a time to live, by when they are worth looking at.
    pub(super) fn resting(&self) -> String {
        format!("{}:resting", self.base)
    }

    /// Living sessions with a time to live, by when they are worth looking at.
    pub(super) fn ending(&self) -> String {
        format!("{}:ending", self.base)
    }

    /// Copies that are to become sessions, by when somebody last went on with them.
    pub(super) fn copies(&self) -> String {
        format!("{}:copies", self.base)
    }

    /// Collections with tombstones, by the time of the oldest one.
    pub(super) fn buried(&self) -> String {
        format!("{}:buried", self.base)
    }

    /// The names of a copy that is to become the session of that member.
    pub(super) fn copy(&self, member: &str) -> CopyNames {
        CopyNames {
            base: format!("{}:f:{member}", self.base),
        }
    }

    /// Living sessions of a namespace, in the order of their creation.
    pub(super) fn living(&self, namespace: &str) -> String {
        format!("{}:l:{namespace}", self.base)
    }

    /// Living sessions of a namespace, in the order of their last change.
    pub(super) fn changed(&self, namespace: &str) -> String {
        format!("{}:c:{namespace}", self.base)
    }

    /// Living sessions of a namespace with an open question, in the order of their creation.
    pub(super) fn asking(&self, namespace: &str) -> String {
        format!("{}:a:{namespace}", self.base)
    }

    /// The channel that tells of work, and owners of commands.
    pub(super) fn work(&self) -> String {
        format!("{}:w:{}", self.base, self.store)
    }

    /// A channel without subscribers, by which the right to publish is tested.
    pub(super) fn probe(&self) -> String {
        format!("{}:probe:{}", self.base, self.store)
    }

    /// The hash of a session by its member.
    pub(super) fn hash(&self, member: &str) -> String {
        format!("{}:s:{member}", self.base)
    }
}

/// The names of a session.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) partition: Partition,
    pub(super) member: String,
    base: String,
}

impl Session {
    pub(super) fn hash(&self) -> String {
        self.base.clone()
    }

    pub(super) fn journal(&self) -> String {
        format!("{}:j", self.base)
    }

    /// What a script needs to set the session aside.
    pub(super) fn for_setting_aside(&self) -> [String; 5] {
        let partition = &self.partition;
        [
            self.hash(),
            partition.leases(),
            partition.due(),
            partition.aside(),
            partition.newer(),
        ]
    }

    /// Requests: id to number and digest.
    pub(super) fn requests(&self) -> String {
        format!("{}:r", self.base)
    }

    pub(super) fn memory(&self) -> String {
        format!("{}:m", self.base)
    }

    pub(super) fn blobs(&self) -> String {
        format!("{}:b", self.base)
    }

    pub(super) fn checkpoints(&self) -> String {
        format!("{}:c", self.base)
    }

    pub(super) fn checkpoint_numbers(&self) -> String {
        format!("{}:ci", self.base)
    }

    /// The channel that tells of new events, and of the session's end.
    pub(super) fn followers(&self) -> String {
        let Partition { base, store, .. } = &self.partition;
        format!("{base}:h:{store}:{}", self.member)
    }

    /// The channel of what is shown and not stored.
    pub(super) fn deltas(&self) -> String {
        let Partition { base, store, .. } = &self.partition;
        format!("{base}:d:{store}:{}", self.member)
    }
}

/// The names of a collection of documents.
#[derive(Debug, Clone)]
pub(super) struct CollectionNames {
    pub(super) partition: Partition,
    pub(super) member: String,
    base: String,
}

impl CollectionNames {
    /// What the collection adds up to.
    pub(super) fn hash(&self) -> String {
        self.base.clone()
    }

    /// Documents and tombstones, by id.
    pub(super) fn values(&self) -> String {
        format!("{}:v", self.base)
    }

    /// Ids of documents and tombstones, by version.
    pub(super) fn versions(&self) -> String {
        format!("{}:i", self.base)
    }

    /// Ids of tombstones, by version.
    pub(super) fn tombstones(&self) -> String {
        format!("{}:t", self.base)
    }

    /// Operations: id to version and digest.
    pub(super) fn operations(&self) -> String {
        format!("{}:o", self.base)
    }

    /// The slots in which operations are remembered.
    pub(super) fn slots(&self) -> String {
        format!("{}:r", self.base)
    }

    /// The channel that tells of changes.
    pub(super) fn watchers(&self) -> String {
        let Partition { base, store, .. } = &self.partition;
        format!("{base}:k:{store}:{}", self.member)
    }
}

/// The names of what is to become a session.
#[derive(Debug, Clone)]
pub(super) struct CopyNames {
    base: String,
}

impl CopyNames {
    pub(super) fn hash(&self) -> String {
        self.base.clone()
    }

    pub(super) fn journal(&self) -> String {
        format!("{}:j", self.base)
    }

    pub(super) fn blobs(&self) -> String {
        format!("{}:b", self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_stays_in_its_partition_for_ever() {
        // printf default/session-1 | sha256sum
        for (namespace, session, want) in [
            ("default", "session-1", 0xb9),
            ("default", "session-2", 0x2f),
            ("space", "a", 0x61),
        ] {
            let key = SessionKey::new(namespace, session);
            assert_eq!(partition(&key), want, "{key:?}");
        }
    }

    #[test]
    fn stores_of_one_prefix_share_no_channel() {
        let channels = |store: &str| {
            let names = Names::new("cairn", store).session(&SessionKey::new("space", "a"));
            let partition = &names.partition;
            let own = [names.followers(), names.deltas()];
            let shared = [partition.work(), partition.probe()];
            [&own[..], &shared[..]].concat()
        };
        for (one, other) in channels("1").iter().zip(channels("2")) {
            assert_ne!(*one, other);
            assert!(one.starts_with("cairn:{p061}:"), "{one}");
        }
    }

    #[test]
    fn what_belongs_together_has_one_tag() {
        let names = Names::new("cairn", "id");
        let session = names.session(&SessionKey::new("space", "a"));
        assert_eq!(session.journal(), "cairn:{p061}:s:space/a:j");
        assert_eq!(session.partition.due(), "cairn:{p061}:due");
        assert_eq!(session.followers(), "cairn:{p061}:h:id:space/a");
        assert_eq!(
            session_of(&session.member),
            Some(SessionKey::new("space", "a"))
        );
        let collection = Collection::new("space", DocumentKind::ToolServer);
        let documents = names.collection(&collection);
        let tag = documents.partition.tag();
        let base = format!("cairn:{{{tag}}}");
        assert_eq!(documents.values(), format!("{base}:d:space/tool_server:v"));
        assert_eq!(
            documents.watchers(),
            format!("{base}:k:id:space/tool_server")
        );
        assert_eq!(documents.partition.buried(), format!("{base}:buried"));
        assert_eq!(collection_of(&documents.member), Some(collection));
    }
}
