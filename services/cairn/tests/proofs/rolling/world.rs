//! Two processes of each service over a real server of the store, replaced one after the other.

use super::CAIRN;
use cairn_testkit::cluster::Member;
use cairn_testkit::{Cluster, RedisServer, Site, eventually};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// A call that takes long enough for most stops to come in the middle of some. It writes down what it
/// did before it ends.
const RECORD: &str = r#"
set -eu
arguments=$(cat)
sleep 0.1
printf '%s %s\n' "$CAIRN_CALL_KEY" "$arguments" >>"$LEDGER"
sleep 0.1
echo "recorded $arguments"
"#;
/// So many calls are made before the next process is told to stop.
const CALLS: usize = 3;
/// As long as the manifests give a process that is to stop. A cluster kills it then.
const GRACE: Duration = Duration::from_secs(60);
/// Processes of each service.
const COUNT: usize = 2;
/// The variable by which a process is one of an older or a newer release.
const LEVEL: &str = "CAIRN_LEVEL";

/// What nobody wants to see.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Processes that did not stop as they should.
    pub(crate) died: Vec<String>,
}

/// All processes.
pub(crate) struct World<'a> {
    site: &'a Site,
    cluster: Cluster<'a>,
    store: RedisServer,
    pub(crate) done: Done,
}

/// A folder with leases that outlast the pauses of a slow machine, and calls with time enough.
pub(crate) fn site() -> Site {
    let site = Site::new(CAIRN);
    let settings = site.read("cairn.toml").expect("settings");
    let settings = settings.replace(r#"lease = "1s""#, r#"lease = "5s""#);
    let settings = settings.replace("time_limit_ms = 2000", "time_limit_ms = 6000");
    site.write("cairn.toml", &settings);
    site.write("record.sh", RECORD);
    site
}

impl<'a> World<'a> {
    /// Starts everything, and returns when all of it serves.
    pub(crate) fn start(site: &'a Site) -> Self {
        let store = RedisServer::start();
        let cluster = Cluster::several(site, &[("CAIRN_STORE", &store.url())], [COUNT; 5]);
        Self::of(site, store, cluster)
    }

    /// The same with processes of one release, and with a place for one more of each service, as `maxSurge: 1`
    /// gives it.
    pub(crate) fn start_old(site: &'a Site) -> Self {
        let store = RedisServer::start();
        let url = store.url();
        let variables = [("CAIRN_STORE", url.as_str()), (LEVEL, "1")];
        let cluster = Cluster::with_spares(site, &variables, [COUNT; 5], 1);
        Self::of(site, store, cluster)
    }

    fn of(site: &'a Site, store: RedisServer, cluster: Cluster<'a>) -> Self {
        Self {
            site,
            cluster,
            store,
            done: Done::default(),
        }
    }

    /// The places of all processes.
    pub(crate) fn members(&self) -> Vec<Member> {
        self.cluster.members()
    }

    /// Where clients find the orchestrators.
    pub(crate) fn orchestrators(&self) -> Vec<String> {
        self.cluster.addresses("orchestrator")
    }

    /// Tells a process to stop, waits until it has, and starts it again. The load continues before.
    pub(crate) fn roll(&mut self, member: Member) {
        self.wait_for_calls();
        let began = Instant::now();
        let stopped = self.stop(member);
        self.cluster.begin(member);
        self.cluster.wait(member);
        let all = began.elapsed();
        println!("{member}: stopped in {stopped:.1?}, serves again after {all:.1?}");
    }

    /// Replaces the processes of a service by those of the next release, as a Deployment does: one more begins,
    /// and once it serves (`maxUnavailable: 0`) an old one gets the signal to stop, after the pause before that.
    pub(crate) fn upgrade(&mut self, service: &'static str, pause: Duration) {
        self.cluster.set_variable(LEVEL, "2");
        let place = |number| Member { service, number };
        for old in 0..COUNT {
            let new = place((old + COUNT) % (COUNT + 1));
            let old = place(old);
            self.wait_for_calls();
            self.cluster.begin(new);
            self.cluster.wait(new);
            std::thread::sleep(pause);
            let stopped = self.stop(old);
            println!("{new} serves, {old} stopped in {stopped:.1?}");
        }
    }

    /// Tells a process to stop, waits until it has, and returns how long that took.
    fn stop(&mut self, member: Member) -> Duration {
        let began = Instant::now();
        self.cluster.terminate(member);
        let status = self.cluster.wait_for_end(member);
        let stopped = began.elapsed();
        let problem = match status.success() {
            false => Some(format!("did not stop cleanly: {status}")),
            true if stopped >= GRACE => Some(format!("took {stopped:.1?} to stop")),
            true => None,
        };
        if let Some(problem) = problem {
            let tail = self.site.tail(&member.log(), 12);
            self.done.died.push(format!("{member} {problem}\n{tail}"));
        }
        stopped
    }

    fn wait_for_calls(&self) {
        let calls = || self.site.ledger().uses().len();
        let enough = calls() + CALLS;
        let report = std::fmt::from_fn(|f| write!(f, "more calls\n{}", self.logs()));
        eventually(report, || (calls() >= enough).then_some(()));
    }

    /// The members of all queues of the store that are not empty.
    pub(crate) fn queued(&self) -> Vec<String> {
        self.store.queued()
    }

    /// What memory says of writes that the store's server has lost.
    pub(crate) fn lost(&self) -> Vec<String> {
        self.logged("memory", "acknowledged writes of a session are lost")
    }

    /// What orchestrators say of sessions that they could not continue.
    pub(crate) fn stalled(&self) -> Vec<String> {
        self.logged("orchestrator", "session cannot continue")
    }

    /// The lines with this text in the logs of a service.
    fn logged(&self, service: &str, text: &str) -> Vec<String> {
        let logs = self.cluster.members_of(service).into_iter();
        let logs = logs.filter_map(|member| self.site.read(&member.log()));
        let lines = logs.flat_map(|log| log.lines().map(str::to_owned).collect::<Vec<_>>());
        lines.filter(|line| line.contains(text)).collect()
    }

    /// The ends of all logs.
    pub(crate) fn logs(&self) -> String {
        let logs = self.members().into_iter();
        let logs = logs.map(|it| format!("== {it}\n{}\n", self.site.tail(&it.log(), 12)));
        logs.collect()
    }

    /// Keeps what is needed to understand a failure, and says where.
    pub(crate) fn keep(&self) -> PathBuf {
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rolling");
        let _ = std::fs::remove_dir_all(&target);
        std::fs::create_dir_all(&target).expect("a folder for what is kept");
        let mut copy = Command::new("cp");
        let copied = copy
            .arg("-r")
            .args([self.site.path(), self.site.state(), &target])
            .status();
        assert!(copied.is_ok_and(|status| status.success()), "cp failed");
        target
    }
}
