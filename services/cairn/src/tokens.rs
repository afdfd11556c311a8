//! The bearer tokens of listeners: where a server gets its own, and where links and commands find
//! those of others.
//!
//! | token from | counts for |
//! |---|---|
//! | `serve.token`, for short `CAIRN_TOKEN` | every listener and every link of the process |
//! | the file `serve.token_file` | the same, if there is no `serve.token` |
//! | `PORT.token` in `$XDG_RUNTIME_DIR/cairn`, or without that folder beside the store | the listener at a port of this machine |
//!
//! The first two are for services on several machines, which share one token. Without them a server
//! makes a random token for each port when it starts, in a file that only its user can read. Commands and
//! links of the same user find it while the server serves: the server holds the file's lock.

mod file;

pub(crate) use file::Kept;

use crate::context::Context;
use crate::error::CliError;
use cairn_boot::Environment;
use cairn_rpc::{Address, FindToken, RequireToken, TOKEN_RULE, Token};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the folder of a person's session is, if there is one. It ends with the session.
const RUNTIME_FOLDER: &str = "XDG_RUNTIME_DIR";

/// The tokens that a process uses. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tokens(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    given: Option<(Token, Source)>,
    /// Where files by port are, in the order in which they are looked for; the first is where this
    /// process makes them.
    folders: Vec<PathBuf>,
}

/// Where the token of a listener comes from. Displayed, it says how a client gets the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `serve.token`.
    Setting,
    /// `serve.token_file`.
    File(PathBuf),
    /// A file by the port.
    Port(PathBuf),
    /// Nowhere: the disk has no room for the file by the port, and no client can have the token.
    Unkept(PathBuf),
}

/// A token, where a client finds it, and what keeps it there.
type Made = (Token, Source, Option<Kept>);

/// Where tokens by port are in a person's session, if there is one.
pub(crate) fn runtime_folder(environment: &Environment) -> Option<PathBuf> {
    let runtime = environment.get(RUNTIME_FOLDER).map(Path::new);
    let runtime = runtime.filter(|folder| folder.is_absolute() && folder.is_dir());
    runtime.map(|folder| folder.join("cairn"))
}

impl Tokens {
    /// The tokens that the settings and the environment name. Reads `serve.token_file`.
    ///
    /// # Errors
    /// A file that cannot be read, or that holds no token.
    pub fn of(context: &Context) -> Result<Self, CliError> {
        let settings = &context.config().serve;
        let given = match (&settings.token, &settings.token_file) {
            // Checked with all settings.
            (token, _) if token.is_set() => token.expose().parse().ok().zip(Some(Source::Setting)),
            (_, Some(path)) => Some((given_file(path)?, Source::File(path.clone()))),
            (_, None) => None,
        };
        let runtime = runtime_folder(&context.environment);
        let store = context.config().store.path.as_deref();
        let beside_store = store.and_then(Path::parent);
        let folders = [
            runtime,
            beside_store.map(|folder| std::path::absolute(folder).unwrap_or_default()),
        ];
        Ok(Self(Arc::new(Inner {
            given,
            folders: folders.into_iter().flatten().collect(),
        })))
    }

    /// The authenticator for a listener at this port, and where its token comes from. Without a
    /// token in the settings, makes one for the port, which counts until the third value is dropped. A
    /// process with a socket is of use without a file, too, so a full disk does not stop it.
    ///
    /// # Errors
    /// No file can be made, or the one that is there can be read or written by others.
    pub(crate) fn require(
        &self,
        port: u16,
        has_socket: bool,
    ) -> Result<(RequireToken, Source, Option<Kept>), CliError> {
        let (token, source, kept) = match &self.0.given {
            Some((token, source)) => (token.clone(), source.clone(), None),
            None => self.of_port(port, has_socket)?,
        };
        let required = RequireToken::new(&token, source.to_string());
        Ok((required, source, kept))
    }

    fn of_port(&self, port: u16, has_socket: bool) -> Result<Made, CliError> {
        let Some(folder) = self.0.folders.first() else {
            return Err(CliError::usage(format!(
                "there is no place for the token for port {port}: none of XDG_RUNTIME_DIR, \
                 XDG_STATE_HOME and HOME names a folder"
            ))
            .hint("give a token in CAIRN_TOKEN or serve.token_file"));
        };
        let path = file::path(folder, port);
        match file::make(&path) {
            Ok((token, kept)) => Ok((token, Source::Port(path), Some(kept))),
            Err(error) => unkept(port, path, &error, has_socket),
        }
    }
}

/// What becomes of a token whose file cannot be written.
fn unkept(port: u16, path: PathBuf, error: &io::Error, has_socket: bool) -> Result<Made, CliError> {
    let is_full = matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    );
    if is_full && has_socket {
        return Ok((Token::random()?, Source::Unkept(path), None));
    }
    let error = CliError::new(format!(
        "the token for port {port} cannot be kept in {}: {error}",
        path.display()
    ));
    Err(error.hint(match is_full {
        true => "free some of the disk, or give a token in CAIRN_TOKEN or serve.token_file",
        false => {
            "make the file readable and writable by you alone (chmod 600), or remove it\n\
             or give a token in CAIRN_TOKEN or serve.token_file"
        }
    }))
}

impl FindToken for Tokens {
    fn find(&self, address: &Address) -> Option<Token> {
        if address.unix_path().is_some() {
            return None;
        }
        if let Some((token, _)) = &self.0.given {
            return Some(token.clone());
        }
        let port = address.loopback_port()?;
        let mut folders = self.0.folders.iter();
        folders.find_map(|folder| file::read(&file::path(folder, port)))
    }
}

impl Source {
    /// The setting or the file that holds the token.
    pub fn place(&self) -> String {
        match self {
            Self::Setting => "serve.token (CAIRN_TOKEN)".to_owned(),
            Self::File(path) | Self::Port(path) | Self::Unkept(path) => path.display().to_string(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        match self {
            Self::Setting => write!(f, "the token is in the server's {place}")?,
            Self::File(_) => write!(f, "the token is in the server's serve.token_file {place}")?,
            Self::Port(_) => write!(
                f,
                "the token is in {place} on the server's machine, where its user's commands find it"
            )?,
            Self::Unkept(_) => {
                return write!(
                    f,
                    "the server's disk has no room for a token in {place}; free some and start the \
                     server again, or give it one in CAIRN_TOKEN"
                );
            }
        }
        f.write_str("; give it to a client in CAIRN_TOKEN or serve.token_file")
    }
}

fn given_file(path: &Path) -> Result<Token, CliError> {
    let shown = path.display();
    let text = file::text(path).map_err(|error| {
        CliError::usage(format!("serve.token_file {shown} cannot be read: {error}"))
    })?;
    text.parse().map_err(|_| {
        CliError::usage(format!(
            "serve.token_file {shown} holds no token (allowed: {TOKEN_RULE})"
        ))
        .hint(format!("make one with: openssl rand -hex 32 > {shown}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_stops_only_a_server_without_a_socket() {
        let path = || PathBuf::from("/run/7878.token");
        let made = |kind: ErrorKind, has_socket| {
            let made = unkept(7878, path(), &io::Error::from(kind), has_socket);
            made.map(|(_, source, kept)| (source, kept.is_none()))
        };
        for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded] {
            let (source, has_no_file) = made(kind, true).unwrap();
            assert_eq!((&source, has_no_file), (&Source::Unkept(path()), true));
            assert!(source.to_string().contains("no room"), "{source}");
            let error = made(kind, false).unwrap_err();
            assert!(error.hint.contains("CAIRN_TOKEN"), "{error}");
            assert!(error.message.contains("/run/7878.token"), "{error}");
        }
        assert!(made(ErrorKind::PermissionDenied, true).is_err());
    }
}
