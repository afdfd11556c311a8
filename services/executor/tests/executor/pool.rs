//! What an executor says of itself to the pool, and what it logs of shortages.

use crate::bench::{Bench, within};
use crate::owner::model_step;
use cairn_executor::Config;
use cairn_proto::event::{MissingCapability, ShortageKind};
use cairn_proto::executor::{
    DeclaredCapability, NotifyShortageRequest, WatchStatusRequest, WatchStatusResponse,
};
use cairn_rpc::RpcError;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tonic::Status;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// What is logged in this thread, from level info on.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Listens until the guard is dropped.
    fn listen() -> (Self, DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        let guard = tracing::subscriber::set_default(subscriber);
        (log, guard)
    }

    /// How many lines have the text.
    fn lines_with(&self, text: &str) -> usize {
        let log = self.0.lock().expect("not poisoned").clone();
        let log = String::from_utf8(log).expect("text");
        log.lines().filter(|line| line.contains(text)).count()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn check_profile(report: &WatchStatusResponse) {
    assert_eq!(report.name, "gpu-1");
    assert_eq!(report.tools, ["read_file", "github__*"]);
    let declared = [("gpu", 1), ("web_search", 5)];
    let declared = declared.map(|(name, level)| DeclaredCapability {
        name: name.to_owned(),
        level,
    });
    assert_eq!(report.capabilities, declared);
    assert_eq!(report.labels["zone"], "a");
}

#[tokio::test(start_paused = true)]
async fn every_report_says_what_the_executor_can_do() {
    let config = Config {
        name: "gpu-1".to_owned(),
        tools: vec!["read_file".to_owned(), "github__*".to_owned()],
        capabilities: BTreeMap::from([("gpu".to_owned(), 1), ("web_search".to_owned(), 5)]),
        labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
        ..Config::default()
    };
    let mut bench = Bench::with(config).await;
    let reports = bench.client.watch_status(WatchStatusRequest {}).await;
    let mut reports = reports.expect("a stream").into_inner();
    let mut count = 0;
    let owner = bench.start(model_step()).await;
    let asked = bench.asked().await;
    let first = within(reports.message()).await.expect("no error");
    check_profile(&first.expect("a report"));
    owner.end(0).await;
    asked.dropped().await;
    bench.running.drain().await;
    // The last says that the executor drains.
    while let Some(report) = within(reports.message()).await.expect("no error") {
        check_profile(&report);
        count += 1;
    }
    assert!(count > 0);
}

#[tokio::test(start_paused = true)]
async fn an_executor_without_settings_says_nothing_of_itself() {
    let mut bench = Bench::new().await;
    let reports = bench.client.watch_status(WatchStatusRequest {}).await;
    let mut reports = reports.expect("a stream").into_inner();
    let report = within(reports.message()).await.expect("no error");
    let report = report.expect("a report");
    assert_eq!((&*report.name, report.tools.len()), ("", 0));
    assert!(report.capabilities.is_empty() && report.labels.is_empty());
}

fn web_search() -> MissingCapability {
    MissingCapability {
        capability: "web_search".to_owned(),
        level: 5,
        total: 1,
        ..MissingCapability::default()
    }
}

async fn notify(
    bench: &mut Bench,
    missing: MissingCapability,
    kind: ShortageKind,
) -> Result<(), Status> {
    let notice = NotifyShortageRequest {
        missing: Some(missing),
        kind: kind.into(),
    };
    bench.client.notify_shortage(notice).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn a_shortage_and_its_end_are_logged_once() {
    const SHORT: &str = "capability short";
    const ENDED: &str = "capability no longer short";
    let (log, _guard) = Log::listen();
    let mut bench = Bench::new().await;
    // The end of what never began.
    let ends = ShortageKind::Unspecified;
    notify(&mut bench, web_search(), ends).await.expect("ok");
    assert_eq!(log.lines_with(ENDED), 0);
    for _ in 0..2 {
        let noted = notify(&mut bench, web_search(), ShortageKind::Busy).await;
        noted.expect("a notice");
        assert_eq!(log.lines_with(SHORT), 1);
    }
    let fields = "capability=web_search>=5 available=0 total=1 state=\"busy\"";
    assert_eq!(log.lines_with(fields), 1);
    assert_eq!(log.lines_with("WARN"), 1);
    // Another capability, and another state of this one.
    let gpu = MissingCapability {
        capability: "gpu".to_owned(),
        ..MissingCapability::default()
    };
    for missing in [gpu, web_search()] {
        let noted = notify(&mut bench, missing, ShortageKind::None).await;
        noted.expect("a notice");
    }
    assert_eq!(log.lines_with("total=1 state=\"none\""), 1);
    assert_eq!(log.lines_with(SHORT), 3);
    for _ in 0..2 {
        notify(&mut bench, web_search(), ends).await.expect("ok");
        assert_eq!(log.lines_with(ENDED), 1);
    }
    assert_eq!(log.lines_with("capability=web_search>=5"), 3);
}

/// The notice of the end may have been lost.
#[tokio::test(start_paused = true)]
async fn a_shortage_that_is_reported_again_much_later_is_logged_again() {
    let (log, _guard) = Log::listen();
    let mut bench = Bench::new().await;
    for expected in [1, 2] {
        let noted = notify(&mut bench, web_search(), ShortageKind::Busy).await;
        noted.expect("a notice");
        assert_eq!(log.lines_with("capability short"), expected);
        tokio::time::advance(Duration::from_secs(60)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_no_executor_may_use_is_logged_by_its_name() {
    let (log, _guard) = Log::listen();
    let mut bench = Bench::new().await;
    let tool = MissingCapability {
        tools: vec!["git\nhub".to_owned()],
        ..MissingCapability::default()
    };
    let noted = notify(&mut bench, tool, ShortageKind::None).await;
    noted.expect("a notice");
    assert_eq!(log.lines_with("capability=git\\nhub available=0"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_notice_that_names_nothing_is_refused() {
    let mut bench = Bench::new().await;
    let named = |name: &str| {
        Some(MissingCapability {
            capability: name.to_owned(),
            ..MissingCapability::default()
        })
    };
    let busy: i32 = ShortageKind::Busy.into();
    for (missing, kind, field) in [
        (None, busy, "missing"),
        (named("Web Search"), busy, "missing.capability"),
        (named(""), busy, "missing.capability"),
        (named("gpu"), 99, "kind"),
    ] {
        let notice = NotifyShortageRequest { missing, kind };
        let refused = bench.client.notify_shortage(notice).await;
        let error = RpcError::from_status(&refused.expect_err("a refusal"));
        assert_eq!(error.violations()[0].field, field);
    }
}
