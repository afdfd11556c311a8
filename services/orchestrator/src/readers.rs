//! What streams hold for clients that have not read it yet, bounded in bytes for the whole process.

use cairn_rpc::{RpcError, Unsent};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::time::{Instant, timeout_at};

/// A stream whose client has not read for this long can be ended to make room.
const PATIENCE: Duration = Duration::from_secs(2);
/// A stream waits no longer than this for room.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// When a client that found no room may come again.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// So much always finds room: streams with small messages never wait.
const SMALL: usize = 64 * 1024;

/// All streams of this process. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Readers(Arc<All>);

struct All {
    most: usize,
    open: Mutex<Open>,
    freed: Notify,
    /// Held while a state is loaded whose bytes are not counted yet.
    uncounted: AsyncMutex<()>,
}

#[derive(Default)]
struct Open {
    bytes: usize,
    next: u64,
    shares: BTreeMap<u64, Held>,
}

/// What one stream holds.
#[derive(Default)]
struct Held {
    parts: [usize; 3],
    /// Since when it waits for its client; none while the client waits for it.
    unread: Option<Instant>,
    /// The share of a state that it has together with other streams.
    shared: Option<u64>,
    /// Weak, because what a stream holds has clones of its share.
    cut: Option<Weak<dyn Cut>>,
    /// What its connection has not taken of its message.
    unsent: Unsent,
}

/// What a stream holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// Events that were read and not sent.
    Page,
    /// The state of the session.
    Fold,
    /// The message that is read for the client, or that its connection has. If the connection has all of it,
    /// it stays when the stream is cut. Otherwise the connection keeps two slices at most, which do not count.
    Message,
}

/// Drops what a stream holds.
pub(crate) trait Cut: Send + Sync {
    /// Returns whether it did: nothing of a stream that is being read is dropped.
    fn cut(&self) -> bool;
}

/// The bytes of one stream, counted until the last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Share(Arc<Own>);

#[derive(Debug)]
struct Own {
    readers: Readers,
    id: u64,
}

/// What to do for room.
enum Turn {
    Fits,
    /// End this one, whose client has not read for longest.
    Cut(u64),
    /// Wait until then, if nothing is freed before.
    Wait(Option<Instant>),
}

impl Readers {
    /// Streams that together hold at most so many bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(All {
            most,
            open: Mutex::default(),
            freed: Notify::new(),
            uncounted: AsyncMutex::default(),
        }))
    }

    /// The share of a new stream, which holds nothing.
    pub(crate) fn share(&self) -> Share {
        let mut open = self.lock();
        let id = open.next;
        open.next += 1;
        open.shares.insert(id, Held::default());
        drop(open);
        Share(Arc::new(Own {
            readers: self.clone(),
            id,
        }))
    }

    /// Bytes that are held now.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, id: u64, part: Part, bytes: usize) {
        let is_less = self.lock().put(id, part, bytes);
        if is_less {
            self.0.freed.notify_waiters();
        }
    }

    fn try_fit(&self, id: u64, part: Part, bytes: usize) -> Turn {
        let mut open = self.lock();
        let Some(own) = open.shares.get(&id) else {
            return Turn::Fits;
        };
        let known = own.parts[part as usize];
        let rest = open.bytes - known;
        let has_room = bytes <= SMALL.max(known) || rest + bytes <= self.0.most_of(part);
        if has_room || open.is_alone(id) {
            open.put(id, part, bytes);
            return Turn::Fits;
        }
        let others = open.shares.iter().filter(|(other, _)| **other != id);
        let unread = others.filter_map(|(other, held)| Some((open.unread_and_cut(held)?, *other)));
        match unread.min() {
            Some((since, other)) if since + PATIENCE <= Instant::now() => Turn::Cut(other),
            slowest => Turn::Wait(slowest.map(|(since, _)| since + PATIENCE)),
        }
    }

    /// Drops what a stream holds. Its client gets the error once it reads again.
    fn cut(&self, id: u64) {
        let cut = self.lock().shares.get_mut(&id).and_then(|held| {
            held.unread = None;
            Some((held.cut.clone()?, held.unsent.clone()))
        });
        let Some((cut, unsent)) = cut else { return };
        // Without the lock: what is dropped may have shares of its own.
        if cut.upgrade().is_some_and(|cut| cut.cut()) {
            self.set(id, Part::Page, 0);
            self.set(id, Part::Fold, 0);
            // With it goes the rest of the stream, and its share.
            unsent.discard();
        }
    }
}

impl All {
    /// A stream holds its state while it waits for room for a message, so states leave a quarter free.
    fn most_of(&self, part: Part) -> usize {
        match part {
            Part::Fold => self.most - self.most / 4,
            Part::Page | Part::Message => self.most,
        }
    }
}

impl Open {
    /// Returns whether that is less than before.
    fn put(&mut self, id: u64, part: Part, bytes: usize) -> bool {
        let Some(held) = self.shares.get_mut(&id) else {
            return false;
        };
        let before = std::mem::replace(&mut held.parts[part as usize], bytes);
        self.bytes = self.bytes - before + bytes;
        bytes < before
    }

    /// No other stream holds more than always finds room.
    fn is_alone(&self, id: u64) -> bool {
        let mut shares = self.shares.iter();
        shares.all(|(other, held)| *other == id || held.bytes() <= SMALL)
    }

    /// Since when the client of a stream has not read, if to cut it frees more than always finds room. A state
    /// that it shares goes with the last of its streams.
    fn unread_and_cut(&self, held: &Held) -> Option<Instant> {
        let shared = held.shared.and_then(|id| self.shares.get(&id));
        let freed = held.droppable() + shared.map_or(0, Held::droppable);
        let unread = held.unread?;
        // A client that reads a long message slowly does read.
        let unread = held.unsent.taken().map_or(unread, |it| it.max(unread));
        Some(unread).filter(|_| held.cut.is_some() && freed > SMALL)
    }
}

impl Held {
    fn bytes(&self) -> usize {
        self.parts.iter().sum()
    }

    /// What goes when it is cut.
    fn droppable(&self) -> usize {
        let message = match self.unsent.bytes() {
            0 => 0,
            _ => self.parts[Part::Message as usize],
        };
        self.parts[Part::Page as usize] + self.parts[Part::Fold as usize] + message
    }
}

impl Share {
    /// Holds so many bytes, also if there is no room for them.
    pub(crate) fn set(&self, part: Part, bytes: usize) {
        self.0.readers.set(self.0.id, part, bytes);
    }

    /// Waits until there is room for so many bytes, and holds them. A stream that is alone beside small
    /// ones always has room.
    ///
    /// # Errors
    /// There is no room, although streams whose clients do not read were ended.
    pub(crate) async fn fit(&self, part: Part, bytes: usize) -> Result<(), RpcError> {
        let end = Instant::now() + LONGEST_WAIT;
        let readers = &self.0.readers;
        loop {
            // Made before the look, so that nothing that is freed is missed.
            let freed = readers.0.freed.notified();
            let until = match readers.try_fit(self.0.id, part, bytes) {
                Turn::Fits => return Ok(()),
                Turn::Cut(slowest) => {
                    readers.cut(slowest);
                    continue;
                }
                Turn::Wait(until) => until.map_or(end, |until| until.min(end)),
            };
            if Instant::now() >= end {
                let message = "the streams of this server hold as much as they may";
                return Err(RpcError::overloaded(message, RETRY_AFTER));
            }
            // Either may have made room.
            let _ = timeout_at(until, freed).await;
        }
    }

    /// Loads a state and holds its `bytes`. Only a load tells how many they are, so streams make the first
    /// load one after the other. A stream that finds no room drops its state, and loads it again once it has
    /// room: what waits holds nothing.
    ///
    /// # Errors
    /// The load fails, or there is no room, as in [`fit`](Self::fit).
    pub(crate) async fn load<T, F>(
        &self,
        load: impl Fn() -> F,
        bytes: fn(&T) -> usize,
    ) -> Result<T, RpcError>
    where
        F: Future<Output = Result<T, RpcError>>,
    {
        let readers = &self.0.readers;
        let needed = {
            let _turn = readers.0.uncounted.lock().await;
            let state = load().await?;
            let needed = bytes(&state);
            if let Turn::Fits = readers.try_fit(self.0.id, Part::Fold, needed) {
                return Ok(state);
            }
            needed
        };
        self.fit(Part::Fold, needed).await?;
        let state = load().await?;
        self.set(Part::Fold, bytes(&state));
        Ok(state)
    }

    /// The client reads: what it was sent is not held any more.
    pub(crate) fn reads(&self) {
        self.set(Part::Message, 0);
        if let Some(held) = self.0.readers.lock().shares.get_mut(&self.0.id) {
            held.unread = None;
        }
    }

    /// The client was sent a message, and has not read on yet.
    pub(crate) fn waits(&self) {
        if let Some(held) = self.0.readers.lock().shares.get_mut(&self.0.id) {
            held.unread = Some(Instant::now());
        }
    }

    /// The stream has no state of its own, but this one together with others; none if it has one again.
    pub(crate) fn shares_fold(&self, fold: Option<&Self>) {
        if let Some(held) = self.0.readers.lock().shares.get_mut(&self.0.id) {
            held.shared = fold.map(|fold| fold.0.id);
        }
    }

    /// What the stream holds can be dropped so.
    pub(crate) fn cut_by(&self, cut: Weak<dyn Cut>) {
        if let Some(held) = self.0.readers.lock().shares.get_mut(&self.0.id) {
            held.cut = Some(cut);
        }
    }

    /// What the connection of the stream has not taken yet, for its response.
    pub(crate) fn unsent(&self) -> Unsent {
        let open = self.0.readers.lock();
        let held = open.shares.get(&self.0.id);
        held.map(|held| held.unsent.clone()).unwrap_or_default()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let mut open = self.readers.lock();
        let gone = open.shares.remove(&self.id);
        open.bytes -= gone.map_or(0, |gone| gone.bytes());
        drop(open);
        self.readers.0.freed.notify_waiters();
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.0.most;
        f.debug_struct("Readers")
            .field("most", &most)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::join_all;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    const MIB: usize = 1024 * 1024;

    #[derive(Default)]
    struct Flag(AtomicBool);

    impl Cut for Flag {
        fn cut(&self) -> bool {
            self.0.store(true, Ordering::Relaxed);
            true
        }
    }

    /// A stream that holds so many bytes, and whose client does not read.
    async fn unread(readers: &Readers, bytes: usize) -> (Share, Arc<Flag>) {
        let (share, flag) = (readers.share(), Arc::new(Flag::default()));
        let cut = Arc::downgrade(&flag);
        share.cut_by(cut);
        share.fit(Part::Fold, bytes).await.expect("room");
        share.waits();
        (share, flag)
    }

    #[tokio::test(start_paused = true)]
    async fn the_stream_that_was_read_longest_ago_makes_room() {
        let readers = Readers::new(6 * MIB);
        let (first, one) = unread(&readers, 2 * MIB).await;
        tokio::time::advance(Duration::from_millis(1)).await;
        let (_second, other) = unread(&readers, 2 * MIB).await;
        let begun = Instant::now();
        let third = readers.share();
        third.fit(Part::Fold, MIB).await.expect("room");
        assert!(begun.elapsed() >= PATIENCE - Duration::from_millis(1));
        let cut = [&one, &other].map(|it| it.0.load(Ordering::Relaxed));
        assert_eq!((cut, readers.bytes()), ([true, false], 3 * MIB));
        drop((first, third));
        assert_eq!(readers.bytes(), 2 * MIB);
    }

    #[tokio::test(start_paused = true)]
    async fn streams_that_are_read_are_not_ended_and_a_new_one_waits() {
        let readers = Readers::new(MIB);
        let (read, flag) = unread(&readers, MIB).await;
        read.reads();
        let late = readers.share();
        let error = late.fit(Part::Page, MIB).await.expect_err("no room");
        assert_eq!(error.reason_name(), RpcError::OVERLOADED);
        assert!(!flag.0.load(Ordering::Relaxed));
        late.fit(Part::Message, SMALL).await.expect("small");
        let waiting = tokio::spawn(async move { late.fit(Part::Page, MIB).await });
        tokio::task::yield_now().await;
        drop(read);
        waiting.await.expect("no panic").expect("room");
    }

    /// Counts how many of them are there.
    struct State<'a>(&'a AtomicUsize);

    impl<'a> State<'a> {
        async fn load(there: &'a AtomicUsize, most: &AtomicUsize) -> Result<Self, RpcError> {
            let now = there.fetch_add(1, Ordering::Relaxed) + 1;
            most.fetch_max(now, Ordering::Relaxed);
            let state = Self(there);
            tokio::task::yield_now().await;
            Ok(state)
        }
    }

    impl Drop for State<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Has a state for a while.
    async fn stream(share: Share, there: &AtomicUsize, most: &AtomicUsize) {
        let load = || State::load(there, most);
        let state = share.load(load, |_| MIB).await.expect("room");
        tokio::time::sleep(PATIENCE).await;
        drop((state, share));
    }

    /// One of them has room, and the bytes of one are looked at. The others wait, and are loaded again.
    #[tokio::test(start_paused = true)]
    async fn states_that_wait_for_room_are_not_there() {
        let readers = Readers::new(MIB);
        let (there, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let streams = (0..8).map(|_| stream(readers.share(), &there, &most));
        join_all(streams).await;
        let seen = [&most, &there].map(|it| it.load(Ordering::Relaxed));
        assert_eq!((seen, readers.bytes()), ([2, 0], 0));
    }

    /// Each holds its state while it waits for room for a message.
    #[tokio::test(start_paused = true)]
    async fn states_leave_room_for_messages() {
        let readers = Readers::new(8 * MIB);
        let mut folded = Vec::new();
        for _ in 0..8 {
            let share = readers.share();
            if share.fit(Part::Fold, MIB).await.is_ok() {
                folded.push(share);
            }
        }
        assert_eq!(folded.len(), 6);
        for share in &folded[..2] {
            share.fit(Part::Message, MIB).await.expect("room");
        }
    }

    /// The state that two streams share goes with the second of them.
    #[tokio::test(start_paused = true)]
    async fn streams_that_share_a_state_make_room_for_others() {
        let readers = Readers::new(MIB);
        let fold = readers.share();
        fold.set(Part::Fold, MIB / 2);
        let (one, flag) = unread(&readers, 0).await;
        let (_other, other) = unread(&readers, 0).await;
        one.shares_fold(Some(&fold));
        let late = readers.share();
        let waiting = tokio::spawn(async move { late.fit(Part::Fold, MIB / 2).await });
        tokio::time::sleep(PATIENCE * 2).await;
        let cut = [&flag, &other].map(|it| it.0.load(Ordering::Relaxed));
        assert_eq!(cut, [true, false]);
        drop(fold);
        waiting.await.expect("no panic").expect("room");
    }

    /// To end it would free next to nothing.
    #[tokio::test(start_paused = true)]
    async fn a_stream_that_holds_little_is_not_ended() {
        let readers = Readers::new(MIB);
        let (_small, flag) = unread(&readers, SMALL).await;
        let (_large, other) = unread(&readers, MIB / 2).await;
        let late = readers.share();
        late.fit(Part::Fold, MIB / 2).await.expect("room");
        let cut = [&flag, &other].map(|it| it.0.load(Ordering::Relaxed));
        assert_eq!(cut, [false, true]);
    }

    /// A client may begin to read while others look for room.
    #[tokio::test(start_paused = true)]
    async fn a_stream_that_could_not_be_ended_counts() {
        struct Read;
        impl Cut for Read {
            fn cut(&self) -> bool {
                false
            }
        }
        let readers = Readers::new(MIB);
        let (share, read) = (readers.share(), Arc::new(Read));
        let cut = Arc::downgrade(&read);
        share.cut_by(cut);
        share.fit(Part::Fold, MIB / 2).await.expect("room");
        share.waits();
        let late = readers.share();
        late.fit(Part::Page, MIB).await.expect_err("no room");
        assert_eq!(readers.bytes(), MIB / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_beside_small_ones_may_hold_more() {
        let readers = Readers::new(MIB);
        let small = readers.share();
        small.set(Part::Message, SMALL);
        let share = readers.share();
        share.fit(Part::Fold, 5 * MIB).await.expect("alone");
        share.fit(Part::Message, MIB).await.expect("alone");
        // What its client was sent is the transport's, and is counted until it reads on.
        assert_eq!(readers.bytes(), 6 * MIB + SMALL);
        share.reads();
        assert_eq!(readers.bytes(), 5 * MIB + SMALL);
    }
}
