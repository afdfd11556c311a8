use super::*;
use async_trait::async_trait;
use cairn_rpc::{BootClock, Monotonic};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
struct Hand(AtomicU64);

impl Hand {
    fn advance(&self, millis: u64) {
        self.0.fetch_add(millis * 1_000_000, Ordering::SeqCst);
    }
}

impl Monotonic for Hand {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

/// A store whose answers, and the time they take, are given.
struct Store {
    hand: Arc<Hand>,
    answer: Mutex<Result<u64, String>>,
    takes: AtomicU64,
    asked: AtomicUsize,
}

#[async_trait]
impl StoreTime for Store {
    async fn read(&self) -> Result<u64, BoxError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.hand.advance(self.takes.load(Ordering::SeqCst));
        let answer = self.answer.lock().unwrap().clone();
        answer.map_err(BoxError::from)
    }
}

struct World {
    hand: Arc<Hand>,
    store: Arc<Store>,
    clock: Arc<StoreClock>,
    gate: Gate,
}

fn world(answer: Result<u64, &str>) -> World {
    let hand = Arc::new(Hand::default());
    hand.advance(7_000);
    let store = Arc::new(Store {
        hand: hand.clone(),
        answer: Mutex::new(answer.map_err(str::to_owned)),
        takes: AtomicU64::new(0),
        asked: AtomicUsize::new(0),
    });
    let clock = Arc::new(StoreClock::new(store.clone(), hand.clone()));
    let gate = Gate::new(clock.clone());
    World {
        hand,
        store,
        clock,
        gate,
    }
}

fn refusal(result: Result<Permit, ToolError>) -> String {
    match result {
        Err(ToolError::NotSent(message)) => message,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_call_may_begin_up_to_and_at_not_after() {
    let world = world(Ok(1_000));
    assert!(world.gate.admit("k", Some(1_000)).await.is_ok());
    let message = refusal(world.gate.admit("k", Some(999)).await);
    assert!(message.contains("up to 1 ms"), "{message}");
}

#[tokio::test]
async fn the_time_since_the_question_counts_and_not_since_the_answer() {
    let world = world(Ok(1_000));
    world.store.takes.store(400, Ordering::SeqCst);
    world.clock.refresh().await.unwrap();
    // The stamp may have been made right at the question: 400 ms may have passed since.
    assert_eq!(world.clock.latest_now(), Some(1_400));
    world.hand.advance(100);
    assert_eq!(world.clock.latest_now(), Some(1_500));
    *world.store.answer.lock().unwrap() = Ok(1_100);
    refusal(world.gate.admit("k", Some(1_499)).await);
    assert!(world.gate.admit("k", Some(1_500)).await.is_ok());
}

#[tokio::test]
async fn a_bound_that_is_far_ahead_is_read_anew_before_a_call_is_refused() {
    let world = world(Ok(1_000));
    world.store.takes.store(1_600, Ordering::SeqCst);
    world.clock.refresh().await.unwrap();
    assert_eq!(world.clock.latest_now(), Some(2_600));
    // Most of that time went by before the store stamped its answer.
    world.store.takes.store(10, Ordering::SeqCst);
    *world.store.answer.lock().unwrap() = Ok(1_100);
    assert!(world.gate.admit("k", Some(2_000)).await.is_ok());
    assert_eq!(world.store.asked.load(Ordering::SeqCst), 2);
    // One that is late for certain is refused, and asks no more.
    refusal(world.gate.admit("k", Some(1_050)).await);
    assert_eq!(world.store.asked.load(Ordering::SeqCst), 2);
    // Without an answer the old bound holds.
    world.hand.advance(1_000);
    *world.store.answer.lock().unwrap() = Err("gone".to_owned());
    refusal(world.gate.admit("k", Some(2_000)).await);
}

#[tokio::test]
async fn a_part_of_a_millisecond_counts_as_a_whole_one() {
    let world = world(Ok(1_000));
    world.clock.refresh().await.unwrap();
    world.hand.0.fetch_add(1, Ordering::SeqCst);
    assert_eq!(world.clock.latest_now(), Some(1_001));
}

#[tokio::test]
async fn without_a_reading_everything_is_refused() {
    let world = world(Err("store is away"));
    let message = refusal(world.gate.admit("k", Some(u64::MAX)).await);
    assert!(message.contains("time is not known"), "{message}");
    assert!(!message.contains("store is away"), "internals stay inside");
    assert_eq!(world.clock.latest_now(), None);
}

#[tokio::test]
async fn a_store_that_never_answers_is_given_up() {
    struct Silent;
    #[async_trait]
    impl StoreTime for Silent {
        async fn read(&self) -> Result<u64, BoxError> {
            std::future::pending().await
        }
    }
    tokio::time::pause();
    let clock = StoreClock::new(Arc::new(Silent), Arc::new(Hand::default()));
    assert!(clock.refresh().await.is_err());
}

#[tokio::test]
async fn key_and_not_after_are_needed() {
    let world = world(Ok(1_000));
    assert!(refusal(world.gate.admit("", Some(2_000)).await).contains("no key"));
    assert!(refusal(world.gate.admit("k", None).await).contains("no not_after"));
    assert_eq!(world.store.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_store_is_asked_only_when_the_reading_is_stale() {
    let world = world(Ok(1_000));
    let asked = || world.store.asked.load(Ordering::SeqCst);
    for _ in 0..3 {
        world.gate.admit("k", Some(u64::MAX)).await.unwrap();
    }
    assert_eq!(asked(), 1);
    world.hand.advance(30_000);
    world.gate.admit("k", Some(u64::MAX)).await.unwrap();
    assert_eq!(asked(), 1, "30 s is not older than 30 s");
    world.hand.advance(1);
    world.gate.admit("k", Some(u64::MAX)).await.unwrap();
    assert_eq!(asked(), 2);
}

#[tokio::test]
async fn a_stale_reading_is_not_trusted_when_the_store_is_away() {
    let world = world(Ok(1_000));
    world.gate.admit("k", Some(u64::MAX)).await.unwrap();
    *world.store.answer.lock().unwrap() = Err("gone".to_owned());
    world.gate.admit("k", Some(u64::MAX)).await.unwrap();
    world.hand.advance(30_001);
    refusal(world.gate.admit("k", Some(u64::MAX)).await);
    *world.store.answer.lock().unwrap() = Ok(40_000);
    world.gate.admit("k", Some(u64::MAX)).await.unwrap();
}

#[tokio::test]
async fn a_permit_runs_out() {
    let world = world(Ok(1_000));
    let permit = world.gate.admit("k", Some(1_250)).await.unwrap();
    world.hand.advance(250);
    permit.check().unwrap();
    world.hand.advance(1);
    assert!(matches!(permit.check(), Err(ToolError::NotSent(_))));
    Permit::unlimited().check().unwrap();
}

#[tokio::test]
async fn a_long_sleep_makes_calls_late() {
    let world = world(Ok(1_000));
    world.clock.refresh().await.unwrap();
    let permit = world.gate.admit("k", Some(12_000)).await.unwrap();
    world.hand.advance(3_600_000);
    assert!(permit.check().is_err());
    // The store slept as well, and says so.
    *world.store.answer.lock().unwrap() = Ok(3_601_000);
    refusal(world.gate.admit("k", Some(12_000)).await);
}

#[tokio::test]
async fn many_calls_at_once_ask_once() {
    let world = world(Ok(1_000));
    let calls = (0..50).map(|_| world.gate.admit("k", Some(2_000)));
    for result in futures::future::join_all(calls).await {
        result.unwrap();
    }
    assert_eq!(world.store.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn the_reading_is_kept_fresh_until_the_refresher_is_dropped() {
    let world = world(Ok(1_000));
    let refresher = world.clock.keep_fresh();
    tokio::time::sleep(Duration::from_millis(12_500)).await;
    assert_eq!(world.store.asked.load(Ordering::SeqCst), 3);
    drop(refresher);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.store.asked.load(Ordering::SeqCst), 3);
}

#[test]
fn the_boot_clock_goes_forward() {
    let first = BootClock.now();
    assert!(!first.is_zero());
    assert!(BootClock.now() >= first);
}
