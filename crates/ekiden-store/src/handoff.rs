//! The handoff directory: reading what the agent wrote, and emptying it for the next session.
//!
//! No handoff file is ever lost (RUN-12). A file is removed only when the same bytes lie durably in
//! the archive, or in the log, from which the engine archives them when the next session is at work:
//! nobody waits for that. Else it is copied whole to the session's `left/` first, of any size and
//! whatever it holds. What is not a handoff file is not ours and stays.

use std::path::{Path, PathBuf};

use ekiden_core::handoff::{FileText, HandoffFile, HandoffFiles};
use ekiden_core::limits::HANDOFF_FILE_BYTES_MAX;

use crate::archive::{copy_whole, ensure_dir, holds, same_content};
use crate::disk::{Cause, Disk, DiskError, DiskResult, Kind, Stat};
use crate::layout::SessionLayout;

/// Where the content of a handoff directory is safe, or is made so.
#[derive(Debug, Clone, Copy)]
pub struct Keeping<'a> {
    /// The sessions that may have left it. What is safe nowhere goes to the first one's directory.
    pub sessions: &'a [SessionLayout],
    /// Handoffs whose texts the log holds, durably.
    pub recorded: &'a [&'a HandoffFiles],
}

/// What was done to empty the handoff directory.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Files whose content was safe already.
    pub removed: Vec<HandoffFile>,
    /// Files that were no accepted handoff, and where they are kept.
    pub kept: Vec<(HandoffFile, PathBuf)>,
    /// What stood in place of a file and is none, under its new name beside it.
    pub aside: Vec<PathBuf>,
}

/// Reads the three files. At most [`HANDOFF_FILE_BYTES_MAX`] bytes of each; a link, directory or
/// pipe in place of a file is no text.
pub fn read_handoff(disk: &dyn Disk, dir: &Path) -> DiskResult<HandoffFiles> {
    let read = |file: HandoffFile| read_text(disk, &dir.join(file.name()));
    Ok(HandoffFiles {
        progress: read(HandoffFile::Progress)?,
        next_prompt: read(HandoffFile::NextPrompt)?,
        knowledge: read(HandoffFile::Knowledge)?,
    })
}

/// Makes what an agent wrote 0600, as all else of ours is: it may lie there for long (MEM-12). While the
/// agent works its own mode must do, in a directory that is 0700.
pub fn make_private(disk: &dyn Disk, dir: &Path) -> DiskResult<()> {
    for path in HandoffFile::ALL.map(|file| dir.join(file.name())) {
        if disk.stat(&path)?.is_some_and(|found| found.kind == Kind::File) {
            disk.make_private(&path)?;
        }
    }
    Ok(())
}

/// Empties the handoff directory of the files of a session.
///
/// Safe to repeat after a crash: what was kept already is found again. A power cut may bring removed
/// files back until the caller has synced the directory; until then nothing in it may count as the next
/// session's.
pub fn take_handoff(disk: &dyn Disk, dir: &Path, keeping: Keeping<'_>) -> DiskResult<Taken> {
    let mut taken = Taken::default();
    for file in HandoffFile::ALL {
        let path = dir.join(file.name());
        match disk.stat(&path)? {
            Some(Stat { kind: Kind::File, len }) => {
                take_file(disk, &path, len, file, keeping, &mut taken)?;
            }
            // A link holds no text, and the agent's next handoff must not be written through it.
            Some(Stat { kind: Kind::Link, .. }) => {
                disk.remove(&path)?;
                taken.removed.push(file);
            }
            // The agent's next handoff could not be written.
            Some(Stat { kind: Kind::Dir | Kind::Other, .. }) => taken.aside.push(move_aside(disk, &path)?),
            None => {}
        }
    }
    Ok(taken)
}

/// Gives what stands there another name beside it. Not synced.
pub(crate) fn move_aside(disk: &dyn Disk, path: &Path) -> DiskResult<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut aside = path.with_file_name(format!("aside-{name}"));
    for number in 2.. {
        if disk.stat(&aside)?.is_none() {
            break;
        }
        aside = path.with_file_name(format!("aside-{number}-{name}"));
    }
    disk.rename(path, &aside)?;
    Ok(aside)
}

fn read_text(disk: &dyn Disk, path: &Path) -> DiskResult<FileText> {
    match disk.stat(path)?.map(|found| found.kind) {
        None => return Ok(FileText::Absent),
        Some(Kind::Dir | Kind::Link | Kind::Other) => return Ok(FileText::NotText),
        Some(Kind::File) => {}
    }
    match disk.read(path, HANDOFF_FILE_BYTES_MAX as u64) {
        Ok(bytes) => Ok(String::from_utf8(bytes).map_or(FileText::NotText, FileText::Text)),
        Err(error) if error.is_not_found() => Ok(FileText::Absent),
        Err(DiskError { cause: Cause::TooLarge { bytes, .. }, .. }) => Ok(FileText::TooLarge { bytes }),
        Err(error) => Err(error),
    }
}

fn take_file(
    disk: &dyn Disk,
    path: &Path,
    len: u64,
    file: HandoffFile,
    keeping: Keeping<'_>,
    taken: &mut Taken,
) -> DiskResult<()> {
    let mut is_safe = is_recorded(disk, path, len, file, keeping.recorded)?;
    for session in keeping.sessions {
        is_safe = is_safe || same_content(disk, path, &session.handoff(file))?;
    }
    let Some(session) = keeping.sessions.first().filter(|_| !is_safe) else {
        disk.remove(path)?;
        taken.removed.push(file);
        return Ok(());
    };
    let kept = keep(disk, path, &session.left())?;
    disk.remove(path)?;
    taken.kept.push((file, kept));
    Ok(())
}

fn is_recorded(
    disk: &dyn Disk,
    path: &Path,
    len: u64,
    file: HandoffFile,
    recorded: &[&HandoffFiles],
) -> DiskResult<bool> {
    for text in recorded.iter().filter_map(|files| files.get(file).text()) {
        if holds(disk, path, len, text.as_bytes())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Copies a file to a directory `left/`, under a name that holds nothing else, and tells where. The
/// directory is made if it is missing, with those above it. Durable when it returns, and the same content
/// again is found where it was kept.
pub fn keep(disk: &dyn Disk, path: &Path, left: &Path) -> DiskResult<PathBuf> {
    ensure_dir(disk, left)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut copy = left.join(&*name);
    for number in 2.. {
        if disk.stat(&copy)?.is_none() {
            copy_whole(disk, path, &copy)?;
            break;
        }
        if same_content(disk, path, &copy)? {
            break;
        }
        copy = left.join(format!("{number}-{name}"));
    }
    disk.sync_dir(left)?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use ekiden_core::ids::{RunId, SessionNumber};

    use super::*;
    use crate::archive::{NewFile, archive_dir};
    use crate::layout::StateLayout;
    use crate::sim::{SimDisk, every_crash};

    const DIR: &str = "/p/.ekiden/handoff";

    fn session() -> SessionLayout {
        StateLayout::new(Path::new("/s")).run(&RunId::from_bits(7)).relay(None).session(SessionNumber::FIRST)
    }

    fn with(files: &[(&str, &[u8])]) -> SimDisk {
        let disk = SimDisk::new();
        disk.plant_dir(Path::new(DIR));
        disk.plant_dir(session().dir());
        for (name, bytes) in files {
            disk.plant_file(&Path::new(DIR).join(name), bytes);
        }
        disk
    }

    fn archive_progress(disk: &SimDisk, bytes: &[u8]) {
        let path = session().handoff(HandoffFile::Progress);
        let name = path.file_name().unwrap().to_str().unwrap();
        archive_dir(disk, session().dir(), &[NewFile { name, bytes }]).unwrap();
    }

    fn take(disk: &SimDisk) -> DiskResult<Taken> {
        take_recorded(disk, &[])
    }

    fn take_recorded(disk: &SimDisk, recorded: &[&HandoffFiles]) -> DiskResult<Taken> {
        let keeping = Keeping { sessions: &[session()], recorded };
        take_handoff(disk, Path::new(DIR), keeping)
    }

    fn huge() -> Vec<u8> {
        vec![b'x'; HANDOFF_FILE_BYTES_MAX + 1]
    }

    #[test]
    fn files_are_read_as_text_within_their_bounds() {
        let disk = with(&[("PROGRESS.md", b"STATUS: IN_PROGRESS"), ("NEXT_PROMPT.md", &huge())]);
        let found = read_handoff(&disk, Path::new(DIR)).unwrap();
        assert_eq!(found.progress, FileText::Text("STATUS: IN_PROGRESS".to_owned()));
        assert_eq!(found.next_prompt, FileText::TooLarge { bytes: huge().len() as u64 });
        assert_eq!(found.knowledge, FileText::Absent);
    }

    #[test]
    fn what_is_no_text_is_said_to_be_none() {
        let disk = with(&[("PROGRESS.md", b"\xff\xfe")]);
        disk.plant_dir(&Path::new(DIR).join("NEXT_PROMPT.md"));
        disk.plant_file(Path::new("/home/secret"), b"secret");
        disk.create_link(&Path::new(DIR).join("KNOWLEDGE.md"), Path::new("/home/secret")).unwrap();
        let found = read_handoff(&disk, Path::new(DIR)).unwrap();
        for file in HandoffFile::ALL {
            assert_eq!(*found.get(file), FileText::NotText, "{file}");
        }
    }

    // shows: RUN-12
    #[test]
    fn archived_files_are_removed_others_kept_whole_and_unknown_ones_left() {
        let disk = with(&[("PROGRESS.md", b"done"), ("NEXT_PROMPT.md", &huge()), ("notes.txt", b"mine")]);
        archive_progress(&disk, b"done");
        let taken = take(&disk).unwrap();
        let copy = session().left().join("NEXT_PROMPT.md");
        assert_eq!(taken.removed, [HandoffFile::Progress]);
        assert_eq!(taken.kept, [(HandoffFile::NextPrompt, copy.clone())]);
        assert_eq!(disk.read(&copy, 1 << 20).unwrap(), huge());
        assert_eq!(disk.list(Path::new(DIR)).unwrap(), ["notes.txt"]);
    }

    // shows: RUN-12
    #[test]
    fn what_stands_in_place_of_a_file_is_moved_out_of_the_way() {
        let disk = with(&[]);
        let place = Path::new(DIR).join("PROGRESS.md");
        for aside in ["aside-PROGRESS.md", "aside-2-PROGRESS.md"] {
            disk.plant_dir(&place);
            assert_eq!(take(&disk).unwrap().aside, [Path::new(DIR).join(aside)]);
            assert_eq!(disk.stat(&place).unwrap(), None);
        }
    }

    // shows: RUN-12
    #[test]
    fn what_the_log_holds_is_removed_without_a_sync_and_anything_else_is_kept() {
        let disk = with(&[("PROGRESS.md", b"done"), ("NEXT_PROMPT.md", b"go on, and more")]);
        let text = |text: &str| FileText::Text(text.to_owned());
        let other = HandoffFiles { progress: text("else"), ..HandoffFiles::default() };
        let recorded = HandoffFiles { progress: text("done"), next_prompt: text("go on"), ..other.clone() };
        let taken = take_recorded(&disk, &[&other, &recorded]).unwrap();
        assert_eq!(taken.removed, [HandoffFile::Progress]);
        assert_eq!(taken.kept, [(HandoffFile::NextPrompt, session().left().join("NEXT_PROMPT.md"))]);

        let disk = with(&[("PROGRESS.md", b"done"), ("NEXT_PROMPT.md", b"go on")]);
        take_recorded(&disk, &[&other, &recorded]).unwrap();
        assert_eq!(disk.syncs(), 0);
    }

    // shows: RUN-12, DUR-02
    #[test]
    fn what_is_kept_has_its_place_made_whatever_crashes() {
        let disk = SimDisk::new();
        disk.plant_dir(Path::new(DIR));
        disk.plant_dir(session().dir().parent().unwrap());
        let (file, copy) = (Path::new(DIR).join("PROGRESS.md"), session().left().join("PROGRESS.md"));
        disk.plant_file(&file, b"of an attempt that never counted");
        every_crash(
            &disk,
            |disk| take(disk).is_ok(),
            |disk, returned, at| {
                let kept = disk.read(&copy, 100).is_ok();
                assert!(kept || (!returned && disk.stat(&file).unwrap().is_some()), "{at:?}");
            },
        );
    }

    #[test]
    fn two_that_differ_are_both_kept() {
        let disk = with(&[]);
        for content in [b"one", b"two", b"one"] {
            disk.plant_file(&Path::new(DIR).join("PROGRESS.md"), content);
            take(&disk).unwrap();
        }
        assert_eq!(disk.list(&session().left()).unwrap(), ["2-PROGRESS.md", "PROGRESS.md"]);
    }

    // shows: RUN-12, DUR-02
    #[test]
    fn no_handoff_file_is_lost_at_any_crash() {
        let files: [(&str, &[u8]); 2] = [("PROGRESS.md", b"archived"), ("KNOWLEDGE.md", b"not archived")];
        let disk = with(&files);
        archive_progress(&disk, b"archived");
        let everywhere = |disk: &SimDisk, content: &[u8]| {
            let places = [Path::new(DIR), session().dir(), &session().left()].map(Path::to_owned);
            places.iter().any(|dir| {
                disk.list(dir).unwrap_or_default().iter().any(|name| {
                    disk.read(&dir.join(name), 1000).is_ok_and(|found| found == content)
                        && !name.to_string_lossy().starts_with('.')
                })
            })
        };
        let explored = every_crash(
            &disk,
            |disk| take(disk).and_then(|_| disk.sync_dir(Path::new(DIR))).is_ok(),
            |disk, returned, at| {
                for (name, content) in files {
                    assert!(everywhere(disk, content), "{name} is lost at {at:?}");
                }
                assert!(!returned || disk.list(Path::new(DIR)).unwrap().is_empty(), "{at:?}");
                take(disk).expect("repeated");
                assert!(disk.list(Path::new(DIR)).unwrap().is_empty());
            },
        );
        assert!(explored.worlds > 50, "{explored:?}");
    }

    // shows: SEC-02
    #[test]
    fn a_link_is_removed_and_what_it_leads_to_stays() {
        let disk = with(&[]);
        disk.plant_file(Path::new("/home/secret"), b"secret");
        disk.create_link(&Path::new(DIR).join("PROGRESS.md"), Path::new("/home/secret")).unwrap();
        assert_eq!(take(&disk).unwrap().removed, [HandoffFile::Progress]);
        assert_eq!(disk.read(Path::new("/home/secret"), 10).unwrap(), b"secret");
    }
}
