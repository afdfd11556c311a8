//! Connections that only read, beside the one that writes.

use super::memory;
use super::operation::{Stop, Task};
use super::schema::set_up_reader;
use super::waiting;
use crate::port::{StoreError, StoreResult};
use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use rusqlite::{Connection, OpenFlags};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Where reads go.
#[derive(Clone)]
pub(super) enum Readers {
    /// To connections of their own.
    Pool(Arc<Pool>),
    /// Through the writer's thread: a store in memory has one connection.
    Writer(mpsc::WeakSender<Task>),
}

/// Connections to a file. Each read gets one for itself, on a thread that may block.
pub(super) struct Pool {
    target: Target,
    connections: u32,
    /// Closed with the store.
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

/// What the pool's connections open.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// A file with its log.
    File(PathBuf),
    /// A file without a log that nobody writes, in a folder that cannot be written.
    Frozen(PathBuf),
}

impl Target {
    pub(super) fn open(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = match self {
            Self::File(path) => Connection::open_with_flags(path, flags)?,
            Self::Frozen(path) => {
                let uri = format!("file:{}?immutable=1", escape(&path.to_string_lossy()));
                Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?
            }
        };
        waiting::stand_in(&conn)?;
        memory::stand_in(&conn)?;
        set_up_reader(&conn)?;
        Ok(conn)
    }
}

/// A path as a part of a URI.
fn escape(path: &str) -> String {
    path.replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23")
}

impl Pool {
    pub(super) fn new(target: Target, connections: usize) -> Self {
        let connections = u32::try_from(connections)
            .unwrap_or(u32::MAX)
            .clamp(1, 1024);
        Self {
            target,
            connections,
            permits: Arc::new(Semaphore::new(connections as usize)),
            idle: Mutex::default(),
        }
    }

    fn run<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Stop>) -> Result<T, Stop> {
        let pooled = self.idle().pop();
        let conn = match pooled {
            Some(conn) => conn,
            None => self.target.open()?,
        };
        let snapshot = conn.unchecked_transaction()?;
        let answer = read(&snapshot);
        drop(snapshot);
        if !matches!(answer, Err(Stop::Sql(_))) && !self.permits.is_closed() {
            self.idle().push(conn);
        }
        answer
    }

    /// Waits for the reads that go on.
    async fn close(&self) {
        let all = self.permits.acquire_many(self.connections).await;
        self.close_now();
        drop(all);
    }

    fn close_now(&self) {
        self.permits.close();
        self.idle().clear();
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Readers {
    /// Reads from one moment of the store.
    pub(super) async fn read<T, F>(&self, read: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Stop> + Send + 'static,
    {
        let answer = match self {
            Self::Pool(pool) => {
                let (pool, permits) = (pool.clone(), pool.permits.clone());
                let work = move |permit: OwnedSemaphorePermit| {
                    let answer = pool.run(read);
                    drop(permit);
                    answer
                };
                match permits.clone().try_acquire_owned() {
                    Ok(permit) => off_the_runtime(move || work(permit)).await?,
                    // The turn of somebody who is not polled, like a stream that nobody reads, would
                    // keep everybody else waiting: a task of its own waits for it.
                    Err(_) => tokio::spawn(async move {
                        let permit = permits.acquire_owned().await;
                        let permit = permit.map_err(|_| StoreError::closed())?;
                        off_the_runtime(move || work(permit)).await
                    })
                    .await
                    .map_err(StoreError::unavailable)??,
                }
            }
            Self::Writer(sender) => through_writer(sender, read).await?,
        };
        answer.map_err(|stop| match stop {
            Stop::Refused(error) => error,
            Stop::Sql(error) => StoreError::unavailable(error),
        })
    }

    /// Lets the reads that go on end, admits no more and closes the connections.
    pub(super) async fn close(&self) {
        if let Self::Pool(pool) = self {
            pool.close().await;
        }
    }

    /// Closes what is not in use, and admits no more.
    pub(super) fn close_now(&self) {
        if let Self::Pool(pool) = self {
            pool.close_now();
        }
    }
}

async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> StoreResult<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(StoreError::unavailable)
}

async fn through_writer<T, F>(
    sender: &mpsc::WeakSender<Task>,
    read: F,
) -> StoreResult<Result<T, Stop>>
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> Result<T, Stop> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let task = Task::Read(Box::new(move |conn| {
        let _ = reply.send(read(conn));
    }));
    let sender = sender.upgrade().ok_or_else(StoreError::closed)?;
    sender.send(task).await.map_err(|_| StoreError::closed())?;
    drop(sender);
    answer.await.map_err(|_| StoreError::closed())
}

/// A stream that ends with an error where it would wait for hints that never come.
pub(super) fn until_caught_up<T: Send + 'static>(
    batches: BoxStream<'static, StoreResult<T>>,
    is_end: fn(&T) -> bool,
) -> BoxStream<'static, StoreResult<T>> {
    let next = move |batches: Option<BoxStream<'static, StoreResult<T>>>| async move {
        let mut batches = batches?;
        let batch = batches.next().await?;
        let caught_up = batch.as_ref().is_ok_and(is_end);
        Some((batch, Some(batches).filter(|_| !caught_up)))
    };
    let over = StoreError::unavailable("the store is open for reading only");
    stream::unfold(Some(batches), next)
        .chain(stream::iter([Err(over)]))
        .boxed()
}
