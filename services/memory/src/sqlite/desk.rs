//! Who writes: the thread, or whoever asks.
//!
//! Handing a transition to another thread and being woken by it takes longer than the transition's
//! own work. Where several sessions are at work that buys something: they share a sync, and some
//! work meanwhile. A session that is alone only waits. Its owner makes its transition itself, as
//! long as the disk answers at once: whoever else its thread serves waits no longer than for any
//! other piece of work then.

use super::operation::{Job, Task};
use super::writer::Writer;
use crate::port::{StoreError, StoreResult};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// A transition that took longer than this shows a disk that is not to be waited for in a thread
/// which may have others to serve.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Where the writer is, for one at a time; `None` once the file is given up.
pub(super) struct Desk(Mutex<Option<Writer>>);

/// The ways to it: straight, or over the queue of the thread.
pub(super) struct Ways {
    pub(super) desk: Arc<Desk>,
    pub(super) queue: mpsc::Sender<Task>,
}

impl Desk {
    pub(super) fn new(writer: Writer) -> Self {
        Self(Mutex::new(Some(writer)))
    }

    /// Waits until nobody else writes.
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Writer>> {
        // Panics are caught where operations are carried out.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a transition of a session that has been alone for a while, here and now. Gives
    /// back what is for the thread.
    fn at_once(&self, task: Task) -> Result<(), Task> {
        let Some(session) = task.transition_of() else {
            return Err(task);
        };
        let mut writer = match self.0.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(writer)) => writer.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(task),
        };
        match writer.as_mut() {
            Some(writer) if writer.recent.is_alone(session) && writer.took < AT_ONCE => {
                writer.carry_out(&mut vec![task]);
                Ok(())
            }
            _ => Err(task),
        }
    }
}

impl Ways {
    /// Has it carried out; its answer comes where it says.
    pub(super) async fn write(&self, job: Box<dyn Job>) -> StoreResult<()> {
        let is_first = self.queue.capacity() == self.queue.max_capacity();
        let task = Task::Write(job);
        let task = match is_first {
            true => self.desk.at_once(task),
            false => Err(task),
        };
        match task {
            Ok(()) => Ok(()),
            Err(task) => {
                let sent = self.queue.send(task).await;
                sent.map_err(|_| StoreError::closed())
            }
        }
    }

    /// Waits until everything that was asked for before is done, and the file is given up.
    pub(super) async fn close(&self) {
        let (told, closed) = oneshot::channel();
        if self.queue.send(Task::Close(told)).await.is_ok() {
            let _ = closed.await;
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::super::{SqliteOptions, SqliteStore, When};
    use super::*;
    use crate::port::{
        Commit, Create, Header, LeaseChange, LeaseRequest, RequestId, SessionKey, Store as _,
    };
    use bytes::Bytes;
    use std::time::Instant;

    const LEASE_MS: u32 = 60_000;

    /// A store, and who made each of its transitions: `true` for its own thread.
    fn store(slow: Option<u64>) -> (SqliteStore, Arc<Mutex<Vec<bool>>>) {
        let writers = Arc::new(Mutex::new(Vec::new()));
        let told = writers.clone();
        let hook = move |number: u64, when| {
            if when == When::After {
                let thread = std::thread::current();
                told.lock()
                    .unwrap()
                    .push(thread.name() == Some("cairn-store"));
                let began = Instant::now();
                while Some(number) == slow && began.elapsed() < 2 * AT_ONCE {
                    std::hint::spin_loop();
                }
            }
        };
        let options = SqliteOptions {
            commit_hook: Some(Arc::new(hook)),
            ..SqliteOptions::default()
        };
        (SqliteStore::in_memory(options).unwrap(), writers)
    }

    fn key(session: &str) -> SessionKey {
        SessionKey::new("n", session)
    }

    async fn create(store: &SqliteStore, session: &str) {
        let creation = Create {
            time_to_live_ms: None,
            key: key(session),
            request: RequestId {
                id: "request".to_owned(),
                digest: Bytes::from_static(b"digest"),
            },
            operation_id: "creation".to_owned(),
            events: vec![Bytes::from_static(b"created")],
            last_command_seq: 0,
            header: Header::default(),
            lease: Some(LeaseRequest {
                owner: "owner".to_owned(),
                lease_ms: LEASE_MS,
            }),
        };
        store.create(creation).await.unwrap();
    }

    async fn commit(store: &SqliteStore, session: &str, version: u64) {
        let transition = Commit {
            key: key(session),
            owner: "owner".to_owned(),
            epoch: 1,
            version,
            operation_id: format!("1.{version}"),
            seen_seq: 1 + version,
            events: vec![Bytes::from_static(b"event")],
            header: Header::default(),
            lease: LeaseChange::Renew,
            lease_ms: LEASE_MS,
            memory_writes: Vec::new(),
            from_reserve: false,
            no_progress: false,
            checkpoint: None,
        };
        let committed = store.commit(transition).await.unwrap();
        assert_eq!(committed.first_seq, 2 + version);
    }

    fn took(writers: &Mutex<Vec<bool>>) -> Vec<bool> {
        std::mem::take(&mut *writers.lock().unwrap())
    }

    #[tokio::test]
    async fn a_session_that_is_alone_makes_its_transitions_itself() {
        let (store, writers) = store(None);
        create(&store, "a").await;
        for version in 0..5 {
            commit(&store, "a", version).await;
        }
        let made = took(&writers);
        assert_eq!(made[..3], [true; 3], "nobody is known to be alone yet");
        assert!(made.ends_with(&[false]), "{made:?}");
        // Another comes: from then on both go through the thread.
        create(&store, "b").await;
        commit(&store, "b", 0).await;
        assert_eq!(took(&writers), [true; 2]);
        commit(&store, "a", 5).await;
        commit(&store, "b", 1).await;
        assert_eq!(took(&writers), [true; 2]);
        let page = store.read(&key("a"), 0, 10).await.unwrap();
        assert_eq!((page.last_seq, page.version), (7, 6));
    }

    #[tokio::test]
    async fn a_disk_that_is_slow_is_left_to_the_thread() {
        // Each transition is one COMMIT, and so is the creation: the fifth transition is slow.
        let (store, writers) = store(Some(6));
        create(&store, "a").await;
        for version in 0..6 {
            commit(&store, "a", version).await;
        }
        let made = took(&writers);
        assert_eq!(made[6], true, "{made:?}");
    }
}
