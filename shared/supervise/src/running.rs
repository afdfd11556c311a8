//! A program that runs: what goes in, what comes out, and its end.

use crate::group;
use crate::supervisor;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;

/// Where programs are looked for if the process itself has no `PATH`.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Bytes of standard error that are kept, from its end.
const ERROR_TAIL: usize = 2048;
/// How long output may still come after the program and its group have ended: something that left
/// the group may hold the pipe.
pub const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// How a program ended.
#[derive(Debug)]
pub struct End {
    /// How it ended, or the process that supervised it; see [`signal_of`](crate::signal_of).
    pub status: ExitStatus,
    /// The beginning of its standard output: one byte more than the limit if there was more.
    pub stdout: Vec<u8>,
    /// The end of its standard error.
    pub stderr: Vec<u8>,
}

/// A program that runs; its process group is killed at the latest when this is dropped.
#[derive(Debug)]
pub struct Running {
    /// The program, or the process that supervises it.
    pub child: Child,
    /// The program, which leads its group, or the process that supervises it.
    id: Option<Pid>,
    is_supervised: bool,
    life: Option<Life>,
}

/// What has to be ended.
#[derive(Debug)]
enum Life {
    /// The program and whatever it has started.
    Group(Pid),
    /// The process that ends these.
    Supervisor(Pid),
}

impl Running {
    /// A program that was started as the leader of a process group. `is_supervised` says that a
    /// [`Supervisor`](crate::Supervisor) made its command line.
    pub fn new(child: Child, is_supervised: bool) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.and_then(Pid::from_raw);
        let life = match is_supervised {
            true => Life::Supervisor,
            false => Life::Group,
        };
        Self {
            life: id.map(life),
            id,
            is_supervised,
            child,
        }
    }

    /// Feeds and drains the program until it ends. Output beyond the limits is read and discarded, so
    /// that the program never blocks. `most` is the limit of standard output, in bytes.
    ///
    /// # Errors
    /// The program cannot be waited for.
    pub async fn finish(&mut self, input: Vec<u8>, most: usize) -> io::Result<End> {
        let stdin = self.child.stdin.take();
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // A program need not read its arguments.
                _ = stdin.write_all(&input).await;
            }
        };
        let (mut head, mut tail) = (Head::new(most), Tail::default());
        let stdout = drain(self.child.stdout.take(), |part| head.take(part));
        let stderr = drain(self.child.stderr.take(), |part| tail.take(part));
        let status = {
            let mut streams = std::pin::pin!(async { tokio::join!(feed, stdout, stderr) });
            let mut closed = false;
            let status = loop {
                tokio::select! {
                    status = self.child.wait() => break status?,
                    _ = &mut streams, if !closed => closed = true,
                }
            };
            // The program is over, and with it whatever it left running in its group.
            match self.life.take() {
                Some(Life::Group(group)) => end_group(group),
                // It has ended, and has seen to that.
                Some(Life::Supervisor(_)) | None => {}
            }
            if !closed {
                _ = tokio::time::timeout(LAST_OUTPUT, streams).await;
            }
            status
        };
        Ok(End {
            status,
            stdout: head.kept,
            stderr: tail.kept,
        })
    }

    /// The program has ended, and with it what its supervising process saw to.
    pub fn has_ended(&mut self) {
        self.life = None;
    }

    /// Kills the program and its children, and waits until they are gone. Returns whether every process of it has
    /// ended for certain.
    pub async fn kill(&mut self) -> bool {
        end(&mut self.life);
        let status = self.child.wait().await;
        match (self.id, status) {
            // A supervising process ends by itself only after its program's group.
            (Some(_), Ok(status)) if self.is_supervised => {
                // The signal itself ends one that has not started a program yet.
                status.code().is_some() || status.signal() == Some(Signal::USR1.as_raw())
            }
            (Some(group), Ok(_)) => group::has_ended(group).await,
            _ => false,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.life);
    }
}

/// Ends a program, once.
fn end(life: &mut Option<Life>) {
    match life.take() {
        Some(Life::Group(group)) => end_group(group),
        Some(Life::Supervisor(supervising)) => supervisor::end(supervising),
        None => {}
    }
}

/// Kills a process group. Right after its leader was waited for, the number could belong to others only
/// if the system had gone through all its numbers in that moment.
fn end_group(group: Pid) {
    // An empty group needs no signal.
    _ = kill_process_group(group, Signal::KILL);
}

async fn drain(stream: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut stream) = stream else {
        return;
    };
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read) = stream.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        take(&buffer[..read]);
    }
}

/// The first bytes of a stream.
#[derive(Debug)]
pub struct Head {
    /// These bytes.
    pub kept: Vec<u8>,
    most: usize,
}

impl Head {
    /// One byte more than a result may have, so that it is seen to be too long.
    pub fn new(most: usize) -> Self {
        Self {
            kept: Vec::new(),
            most: most.saturating_add(1),
        }
    }

    /// Keeps of a part what still fits.
    pub fn take(&mut self, part: &[u8]) {
        let room = self.most - self.kept.len();
        self.kept.extend_from_slice(&part[..part.len().min(room)]);
    }
}

/// The last bytes of a stream.
#[derive(Default)]
struct Tail {
    kept: Vec<u8>,
}

impl Tail {
    fn take(&mut self, part: &[u8]) {
        self.kept.extend_from_slice(part);
        let over = self.kept.len().saturating_sub(ERROR_TAIL);
        self.kept.drain(..over);
    }
}
