//! Real servers of Redis, on this machine alone, killed and started again.

mod clock;
mod cluster;
mod replication;
mod sentinel;

pub use cluster::RedisCluster;
pub use sentinel::RedisSentinel;

use crate::eventually::eventually;
use crate::ports::free_port;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The longest that a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Between two looks at a server that does not answer yet.
const PAUSE: Duration = Duration::from_millis(5);

/// The file of settings in a server's folder.
const SETTINGS: &str = "settings.conf";

/// A `redis-server` in a folder of its own, with the settings that keep what was answered. It ends
/// with the value, and with the thread that started it.
#[derive(Debug)]
pub struct RedisServer {
    arguments: Vec<String>,
    port: u16,
    folder: TempDir,
    process: Option<Child>,
    /// How far its clock will be ahead when it is started next.
    ahead: Duration,
}

impl RedisServer {
    /// Starts a server, and returns when it answers.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with these settings in the place of the usual ones.
    ///
    /// # Panics
    /// If there is no `redis-server`, or it does not start.
    pub fn with(settings: &[(&str, &str)]) -> Self {
        let usual = [
            ("appendonly", "yes"),
            ("appendfsync", "always"),
            ("maxmemory-policy", "noeviction"),
            ("save", ""),
        ];
        let settings = usual.iter().chain(settings);
        let arguments = settings.flat_map(|(name, value)| [format!("--{name}"), (*value).into()]);
        Self::launch(&arguments.collect::<Vec<_>>(), "")
    }

    /// Starts a server with these arguments, the first of which may be the name of a file of
    /// settings.
    fn launch(arguments: &[String], settings: &str) -> Self {
        // A program that is no test may take the port before the server does.
        for _ in 0..5 {
            let folder = tempfile::tempdir().expect("a folder for a server");
            std::fs::write(folder.path().join(SETTINGS), settings).expect("a file of settings");
            let mut server = Self {
                arguments: arguments.to_vec(),
                port: free_port(),
                folder,
                process: None,
                ahead: Duration::ZERO,
            };
            if server.try_start() {
                return server;
            }
        }
        panic!("redis-server does not start with {arguments:?}");
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, without a password.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Where its log of writes is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills it, as `kill -9` does.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts it again at the same place, with what it left on its disk.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_again(&mut self) {
        self.kill();
        assert!(self.try_start(), "redis-server does not start again");
    }

    /// The same with a clock that is ahead by so many whole seconds, also whenever it is started
    /// later.
    ///
    /// # Panics
    /// If it does not start, or there is no `cc`.
    pub fn start_again_ahead(&mut self, by: Duration) {
        self.ahead = by;
        self.start_again();
    }

    /// Stops it in the middle of whatever it does; connections stay.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends one command over a connection of its own, and gives what came back, as text.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn ask(&self, words: &[&str]) -> String {
        ask(self.port, words).expect("an answer of the server")
    }

    /// The same of a server that may end connections just then: `None` if it did.
    pub fn try_ask(&self, words: &[&str]) -> Option<String> {
        ask(self.port, words)
    }

    /// [`ask`](Self::ask) with words that need not be text.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn ask_bytes(&self, words: &[Vec<u8>]) -> String {
        ask(self.port, words).expect("an answer of the server")
    }

    /// How other servers of its cluster call it.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn id(&self) -> String {
        let answer = self.ask(&["CLUSTER", "MYID"]);
        answer.lines().last().unwrap_or_default().to_owned()
    }

    /// The members of all queues of a store of Cairn that are not empty, each after its queue.
    ///
    /// # Panics
    /// If they cannot be read.
    pub fn queued(&self) -> Vec<String> {
        const LOOK_AT_ALL: &str = "local found = {} \
            for p = 0, 255 do for _, queue in ipairs({'due', 'leases', 'newer', 'aside'}) do \
            local key = string.format('cairn:{p%03x}:%s', p, queue) \
            for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do \
            found[#found + 1] = queue .. ' ' .. member end end end \
            return table.concat(found, '\\n')";
        let answer = self.ask(&["EVAL", LOOK_AT_ALL, "0"]);
        let is_text = answer.starts_with('$');
        assert!(is_text, "the queues cannot be read: {answer}");
        let lines = answer.lines().skip(1).map(str::trim);
        let lines = lines.filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    }

    fn signal(&self, signal: Signal) {
        let id = self.process.as_ref().map(Child::id);
        let id = id.and_then(|id| Pid::from_raw(id.cast_signed()));
        kill_process(id.expect("a running server"), signal).expect("a signal to the server");
    }

    /// Whether it runs and answers.
    fn try_start(&mut self) -> bool {
        let log = self.folder.path().join("log");
        let log = File::options().create(true).append(true).open(log);
        let log = log.expect("a log for the server");
        // The server must not outlive a test that is killed.
        let mut command = Command::new("setpriv");
        if !self.ahead.is_zero() {
            command.env("LD_PRELOAD", clock::ahead(self.ahead, self.folder.path()));
        }
        let process = command
            .args(["--pdeathsig", "KILL", "redis-server"])
            .args(&self.arguments)
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log for the server"))
            .stderr(log)
            .spawn();
        let process = process.expect("setpriv, and redis-server: apt-get install redis-server");
        let process = self.process.insert(process);
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if process.try_wait().is_ok_and(|ended| ended.is_some()) {
                return false;
            }
            match ask(self.port, &["PING"]) {
                Some(answer) if answer.starts_with("-LOADING") => {}
                Some(_) => return true,
                None => {}
            }
            std::thread::sleep(PAUSE);
        }
        false
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn wait_until(what: &str, is_there: impl Fn() -> bool) {
    eventually(what, || is_there().then_some(()));
}

/// What a server answers to a command; `None` if there is none, or it does not answer.
fn ask<W: AsRef<[u8]>>(port: u16, words: &[W]) -> Option<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(W::as_ref) {
        request.extend(format!("${}\r\n", word.len()).bytes());
        request.extend(word);
        request.extend(b"\r\n");
    }
    stream.write_all(&request).ok()?;
    let mut answer = Vec::new();
    read_answer(&mut BufReader::new(stream), &mut answer)?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}

/// Takes one answer in, whole: as many lines, bytes and parts as it says itself.
fn read_answer(from: &mut impl BufRead, answer: &mut Vec<u8>) -> Option<()> {
    let start = answer.len();
    let read = from.read_until(b'\n', answer).ok()?;
    let line = answer.get(start..)?;
    if read == 0 || !line.ends_with(b"\r\n") {
        return None;
    }
    let (kind, length) = (line[0], line.get(1..line.len() - 2)?);
    let length: i64 = match kind {
        b'$' | b'*' => std::str::from_utf8(length).ok()?.parse().ok()?,
        _ => return Some(()),
    };
    // Nothing has the length -1.
    let length = u64::try_from(length).unwrap_or_default();
    if kind == b'*' {
        return (0..length).try_for_each(|_| read_answer(from, answer));
    }
    if line != b"$-1\r\n" {
        let rest = length + 2;
        let read = from.take(rest).read_to_end(answer).ok()?;
        return (read as u64 == rest).then_some(());
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::read_answer;
    use std::io::{BufReader, Read as _};

    #[test]
    fn an_answer_ends_where_it_says_however_it_comes() {
        let text = format!("${}\r\n{}\r\n", 4096 - 8, "xy\r\n".repeat(1022));
        let answers = [
            ":7\r\n",
            "-ERR no\r\n",
            "$-1\r\n",
            "$0\r\n\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*2\r\n*2\r\n$4\r\na\r\nb\r\n$-1\r\n:1\r\n",
            &text,
        ];
        for answer in answers {
            let more = format!("{answer}+next\r\n");
            let mut from = BufReader::with_capacity(1, more.as_bytes());
            let mut read = Vec::new();
            assert_eq!(read_answer(&mut from, &mut read), Some(()), "{answer}");
            assert_eq!(String::from_utf8(read).as_deref(), Ok(answer));
            let mut cut = answer.as_bytes().take(answer.len() as u64 - 1);
            let mut cut = BufReader::new(&mut cut);
            assert_eq!(read_answer(&mut cut, &mut Vec::new()), None, "{answer}");
        }
    }
}
