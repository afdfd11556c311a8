//! The processes: services over a real server of the store, and what is done to them.

use super::CAIRN;
use super::chaos::{Chaos, What};
use super::settings::Settings;
use cairn_testkit::cluster::{Member, SERVICES, State};
use cairn_testkit::{Cluster, RedisServer, Site};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Processes of each of the services.
const COUNTS: [usize; 5] = [2, 2, 2, 1, 2];
/// The longest that is waited for a good moment to kill the store.
const AIM: Duration = Duration::from_secs(2);
/// So many commands between two looks are a burst.
const BURST: u64 = 6;
/// Between two looks at the processes when nothing else is to be done.
const LOOK: Duration = Duration::from_millis(50);
/// The longest that processes may take to serve when nobody disturbs them any more.
const SETTLE: Duration = Duration::from_secs(60);

/// As the usual script, but without waiting for the disk: the machine does not die here.
const RECORD: &str = r#"
set -eu
arguments=$(cat)
printf '%s %s\n' "$CAIRN_CALL_KEY" "$arguments" >>"$LEDGER"
echo "recorded $arguments"
"#;

/// A disk that has other things to do.
const NOISE: &str = "while :; do dd if=/dev/zero of=noise bs=1M count=48 conv=fsync; done";

/// What is done later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Later {
    Begin(Member),
    Thaw(Member),
    StartStore,
}

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Kills and freezes by whom they met and how.
    pub(crate) counts: BTreeMap<String, usize>,
    pub(crate) kills: usize,
    pub(crate) freezes: usize,
    /// Processes that ended by themselves after they had served, and never should.
    pub(crate) died: Vec<String>,
    /// Processes that gave up before they served, and were started again.
    pub(crate) gave_up: Vec<String>,
}

/// All processes.
pub(crate) struct World<'a> {
    site: &'a Site,
    cluster: Cluster<'a>,
    store: RedisServer,
    store_is_up: bool,
    /// The store answers when what it answers is on the disk.
    waits_for_disk: bool,
    store_log: PathBuf,
    members: Vec<Member>,
    later: Vec<(Instant, Later)>,
    noise: Option<Child>,
    pub(crate) done: Done,
}

/// A folder with leases that many freezes outlast. A call has longer than any freeze: a tool that
/// waits for a frozen process would be given up, and its run would fail, as it should.
///
/// The tools service may take the store's time to be two seconds later than it is, and refuses calls
/// for which it would then be too late. With leases below three seconds that is all calls for a
/// while, and runs fail.
pub(crate) fn site(settings: &Settings) -> Site {
    let lease = format!(r#"lease = "{}""#, settings.lease);
    let site = Site::new(CAIRN);
    let settings = site.read("cairn.toml").expect("settings");
    let settings = settings.replace(r#"lease = "1s""#, &lease);
    let settings = settings.replace("time_limit_ms = 1000", "time_limit_ms = 6000");
    site.write("cairn.toml", &settings);
    site.write("record.sh", RECORD);
    site
}

impl<'a> World<'a> {
    /// Starts everything, and returns when all of it serves.
    pub(crate) fn start(site: &'a Site, settings: &Settings) -> Self {
        let store = RedisServer::with(&[("appendfsync", &settings.appendfsync)]);
        let folder = store.ask(&["CONFIG", "GET", "dir"]);
        let folder = folder.lines().last().expect("a folder").to_owned();
        let cluster = Cluster::several(site, &[("CAIRN_STORE", &store.url())], COUNTS);
        let noise = settings.noisy_disk.then(|| {
            let mut noise = Command::new("setpriv");
            let noise = noise.args(["--pdeathsig", "KILL", "sh", "-c", NOISE]);
            let noise = noise.current_dir(&folder).stderr(Stdio::null()).spawn();
            noise.expect("setpriv and sh")
        });
        Self {
            site,
            members: cluster.members(),
            cluster,
            store,
            store_is_up: true,
            waits_for_disk: settings.appendfsync == "always",
            store_log: PathBuf::from(folder).join("log"),
            later: Vec::new(),
            noise,
            done: Done::default(),
        }
    }

    /// Where clients find the orchestrators.
    pub(crate) fn orchestrators(&self) -> Vec<String> {
        self.cluster.addresses("orchestrator")
    }

    /// Lets actions happen until there have been so many kills.
    pub(crate) fn disturb(&mut self, seed: u64, kills: usize) {
        let mut chaos = Chaos::new(seed, self.members.len());
        let mut action = chaos.action();
        let mut next = Instant::now() + action.after;
        let mut told = Instant::now();
        while self.done.kills < kills {
            self.look_after();
            if Instant::now() >= next {
                self.act(action.what);
                action = chaos.action();
                next = Instant::now() + action.after;
            }
            if told.elapsed() > Duration::from_secs(60) {
                told = Instant::now();
                println!("{} kills, {} freezes", self.done.kills, self.done.freezes);
            }
            let due = self.later.iter().map(|(at, _)| *at);
            let until = due.chain([next, Instant::now() + LOOK]).min();
            let until = until.unwrap_or(next);
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
        }
    }

    /// Thaws and starts everything, and returns when all of it serves.
    ///
    /// # Panics
    /// If something does not, with the end of the logs.
    pub(crate) fn settle(&mut self) {
        for (_, later) in std::mem::take(&mut self.later) {
            self.catch_up(later);
        }
        let began = Instant::now();
        let is_up = |world: &mut Self, member| world.cluster.state(member) == State::Serving;
        while !self.members.clone().into_iter().all(|it| is_up(self, it)) {
            self.look_after();
            let hung = began.elapsed() > SETTLE;
            assert!(!hung, "not everything serves again:\n{}", self.logs());
            std::thread::sleep(LOOK);
        }
    }

    /// Does what is due, and starts again what ended by itself.
    pub(crate) fn look_after(&mut self) {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.later)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.later = later;
        let due: Vec<(Instant, Later)> = due;
        due.into_iter().for_each(|(_, it)| self.catch_up(it));
        for member in self.members.clone() {
            if let State::Ended { served, status } = self.cluster.state(member) {
                let tail = self.site.tail(&member.log(), 12);
                let story = format!("{member} ended by itself: {status}\n{tail}");
                match served {
                    true => self.done.died.push(story),
                    false => self.done.gave_up.push(story),
                }
                let gave_up = self.done.gave_up.len();
                assert!(gave_up < 1000, "no start succeeds:\n{}", self.logs());
                self.cluster.begin(member);
            }
        }
    }

    fn catch_up(&mut self, later: Later) {
        match later {
            Later::Begin(member) => self.cluster.begin(member),
            Later::Thaw(member) => self.cluster.thaw(member),
            Later::StartStore => {
                self.store.start_again();
                self.store_is_up = true;
            }
        }
    }

    fn act(&mut self, what: What) {
        match what {
            What::Kill { victim, down } => self.kill(victim, down),
            What::Freeze { victim, span } => self.freeze(victim, span),
            What::KillStore { is_aimed, down } if self.store_is_up => {
                let how = if is_aimed { self.aim() } else { "at random" };
                self.store.kill();
                self.store_is_up = false;
                self.count(format!("redis killed {how}"));
                self.done.kills += 1;
                self.later.push((Instant::now() + down, Later::StartStore));
            }
            What::KillStore { .. } => {}
        }
    }

    /// Kills the victim, or the next one that is there.
    fn kill(&mut self, victim: usize, down: Duration) {
        let is_there = |state: State| matches!(state, State::Starting | State::Serving);
        let Some((member, state)) = self.find(victim, is_there) else {
            return;
        };
        let is_frozen = self.is_frozen(member);
        self.later
            .retain(|(_, later)| *later != Later::Thaw(member));
        self.cluster.kill_member(member);
        let how = match state {
            _ if is_frozen => "killed while frozen",
            State::Starting => "killed while starting",
            _ => "killed",
        };
        self.count(format!("{} {how}", member.service));
        self.done.kills += 1;
        let again = Instant::now() + down;
        self.later.push((again, Later::Begin(member)));
    }

    /// Freezes the victim, or the next one that serves and is not frozen.
    fn freeze(&mut self, victim: usize, span: Duration) {
        let Some((member, _)) = self.find(victim, |state| state == State::Serving) else {
            return;
        };
        if self.is_frozen(member) {
            return;
        }
        self.cluster.freeze(member);
        self.count(format!("{} frozen", member.service));
        self.done.freezes += 1;
        self.later
            .push((Instant::now() + span, Later::Thaw(member)));
    }

    fn find(&mut self, victim: usize, fits: impl Fn(State) -> bool) -> Option<(Member, State)> {
        let count = self.members.len();
        let others = (0..count).map(|step| self.members[(victim + step) % count]);
        let others: Vec<Member> = others.collect();
        let mut states = others.into_iter().map(|it| (it, self.cluster.state(it)));
        states.find(|(_, state)| fits(*state))
    }

    fn is_frozen(&self, member: Member) -> bool {
        self.later.iter().any(|(_, it)| *it == Later::Thaw(member))
    }

    fn count(&mut self, what: String) {
        *self.done.counts.entry(what).or_default() += 1;
    }

    /// Waits for a bad moment, and says which one came: where answers do not wait for the disk, one
    /// at which more was answered while it was busy; else the middle of many commits.
    fn aim(&self) -> &'static str {
        let began = Instant::now();
        let mut before: Option<u64> = None;
        while began.elapsed() < AIM {
            let (is_flushing, commands) = self.progress();
            if !self.waits_for_disk && !is_flushing {
                before = None;
                continue;
            }
            let first = *before.get_or_insert(commands);
            match self.waits_for_disk {
                true if commands > first + BURST => return "during a burst",
                true => before = Some(commands),
                false if commands > first + BURST => return "during a flush",
                false => {}
            }
        }
        "in a quiet moment"
    }

    /// Whether a flush is under way in the background, and the number of commands so far.
    fn progress(&self) -> (bool, u64) {
        let info = self.store.ask(&["INFO", "persistence", "stats"]);
        let field = |name: &str| {
            let mut lines = info.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(known, _)| *known == name);
            found.and_then(|(_, value)| value.trim().parse::<u64>().ok())
        };
        let flushes = field("aof_pending_bio_fsync").unwrap_or(0);
        (flushes > 0, field("total_commands_processed").unwrap_or(0))
    }

    /// The members of all queues of the store that are not empty.
    pub(crate) fn queued(&self) -> Vec<String> {
        self.store.queued()
    }

    /// The ends of all logs.
    pub(crate) fn logs(&self) -> String {
        let logs = self.members.iter();
        let logs = logs.map(|it| format!("== {it}\n{}\n", self.site.tail(&it.log(), 12)));
        logs.collect()
    }

    /// Keeps what is needed to understand a failure, and says where.
    pub(crate) fn keep(&self, seed: u64) -> PathBuf {
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let target = target.join(format!("crash-{seed}"));
        let _ = std::fs::remove_dir_all(&target);
        std::fs::create_dir_all(&target).expect("a folder for what is kept");
        for (from, name) in [
            (self.site.path(), "site"),
            (self.store_log.as_path(), "redis.log"),
        ] {
            let mut copy = Command::new("cp");
            let copied = copy.arg("-r").arg(from).arg(target.join(name)).status();
            assert!(copied.is_ok_and(|status| status.success()), "cp failed");
        }
        target
    }

    /// How many processes there are of which service.
    pub(crate) fn describe() -> String {
        let counts = SERVICES.into_iter().zip(COUNTS);
        let counts = counts.map(|(service, count)| format!("{service} x{count}"));
        counts.collect::<Vec<_>>().join(", ")
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        if let Some(noise) = &mut self.noise {
            let _ = noise.kill();
            let _ = noise.wait();
        }
    }
}
