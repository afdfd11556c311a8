//! Files with a token, one for each port.

use cairn_engine::text::without_bom;
use cairn_rpc::Token;
use rustix::fs::OFlags;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// More than any token has.
const MOST_BYTES: u64 = 1024;

/// The file of a port.
pub(super) fn path(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!("{port}.token"))
}

/// What a file holds.
pub(super) fn text(path: &Path) -> io::Result<String> {
    read_text(&File::open(path)?)
}

/// The token of a file that is there.
pub(super) fn read(path: &Path) -> Option<Token> {
    text(path).ok()?.parse().ok()
}

/// The token of the file, which is made if it is not there.
///
/// # Errors
/// The system's; a file of another user, one that others may read or write, or one without a token.
pub(super) fn make(path: &Path) -> io::Result<Token> {
    if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
        make_folder(folder)?;
    }
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)?;
    // Two processes may listen at one port, each at an address of its own: they share the token.
    file.lock()?;
    check(&file)?;
    let text = read_text(&file)?;
    if !text.trim().is_empty() {
        return text.parse().map_err(io::Error::other);
    }
    // New, or its first process was killed before it wrote.
    let token = Token::random()?;
    file.rewind()?;
    file.write_all(format!("{}\n", token.expose()).as_bytes())?;
    Ok(token)
}

/// A folder for tokens, in which `git add .` finds nothing: it may lie in a project.
fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    fs::write(folder.join(".gitignore"), "*\n")
}

/// Refuses a file whose token others may know, or choose.
fn check(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    let problem = match found.mode() & 0o777 {
        _ if !found.is_file() => "it is not a file".to_owned(),
        _ if found.uid() != own => format!("it belongs to user {}", found.uid()),
        mode if mode & 0o077 != 0 => format!("others may use it (mode {mode:03o})"),
        _ => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

fn read_text(file: &File) -> io::Result<String> {
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(without_bom(&text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_token_is_made_once_and_only_its_user_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(&folder.path().join("run/cairn"), 7878);
        assert!(read(&path).is_none());
        let made = make(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let ignored = fs::read_to_string(path.with_file_name(".gitignore"));
        assert_eq!(ignored.unwrap(), "*\n");
        assert_eq!(make(&path).unwrap().expose(), made.expose());
        assert_eq!(read(&path).unwrap().expose(), made.expose());
    }

    #[test]
    fn a_mark_of_the_byte_order_is_no_part_of_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "\u{feff}0123456789abcdef\r\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(&path).unwrap().expose(), "0123456789abcdef");
    }

    #[test]
    fn a_file_whose_process_was_killed_before_it_wrote_gets_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path(), 1);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .unwrap();
        assert!(read(&path).is_none());
        let made = make(&path).unwrap();
        assert_eq!(read(&path).unwrap().expose(), made.expose());
    }

    #[test]
    fn a_file_that_others_may_use_or_choose_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path(), 1);
        make(&path).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o602, 0o666] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = make(&path).unwrap_err();
            assert!(error.to_string().contains("others may use it"), "{error}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let link = folder.path().join("2.token");
        symlink(&path, &link).unwrap();
        assert!(make(&link).is_err(), "it followed a link");
        fs::write(&path, "short\n").unwrap();
        let error = make(&path).unwrap_err();
        assert!(!error.to_string().contains("short"), "{error}");
        assert!(make(folder.path()).is_err(), "a folder is a file");
    }
}
