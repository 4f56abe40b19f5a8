//! A long life on a simulated machine: work, crash anywhere, lose anything that may be lost, start
//! again, and again. What was acknowledged must be there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use ekiden_core::ids::{MessageId, RunId, SessionNumber};
use ekiden_core::time::Timestamp;
use ekiden_sim::{AtCrash, SimDisk, lock};
use ekiden_store::archive::archive_dir;
use ekiden_store::disk::Disk as _;
use ekiden_store::layout::{Published, SessionLayout, StateLayout};
use ekiden_store::lock::Holder;
use ekiden_store::log::{LogWriter, Numbered, read_log};
use ekiden_store::published::{exclude_from_git, prepare_published};
use ekiden_store::replace::{Durability, replace};
use ekiden_store::state::{LockedStateDir, create_state_root};
use serde::{Deserialize, Serialize};

const WORLDS: u64 = 500;
const LIVES: u64 = 6;
const EXCLUDE: &str = "/p/.git/info/exclude";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    seq: u64,
    /// The message that the record answers, if it does.
    answers: Option<MessageId>,
}

impl Numbered for Note {
    fn seq(&self) -> u64 {
        self.seq
    }
}

/// What has been promised so far.
#[derive(Debug, Default)]
struct Promised {
    run: Option<RunId>,
    records: u64,
    archived: BTreeMap<u32, Vec<u8>>,
    /// Messages whose senders were told that they are in the log.
    told: Vec<MessageId>,
}

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn layout() -> StateLayout {
    StateLayout::new(Path::new("/p/.git/ekiden/main"))
}

fn session(run: &RunId, number: u32) -> SessionLayout {
    layout()
        .run(run)
        .relay(None)
        .session(SessionNumber::try_from(number).expect("from 1"))
}

fn prompt(number: u32) -> Vec<u8> {
    format!("the prompt of session {number}").into_bytes()
}

/// One life of an engine: opens what is there, checks it, and works until the machine crashes.
fn live(disk: &Arc<SimDisk>, promised: &mut Promised, life: u64) -> Outcome {
    create_state_root(&**disk, &layout())?;
    let holder = Holder {
        pid: 1,
        host: "atlas".to_owned(),
        started: Timestamp(life),
        run: None,
    };
    let state = LockedStateDir::open(disk.clone(), layout(), lock(holder))?;
    prepare_published(&**disk, &Published::new(Path::new("/p")), &layout())?;
    exclude_from_git(&**disk, Path::new(EXCLUDE))?;
    let (run, mut log, mut answered) = open_run(&state, promised, life)?;
    for number in 1..=3 {
        archive(disk, &run, number, promised)?;
        answer(
            &format!("m-{life}-{number}"),
            &mut log,
            &mut answered,
            promised,
        )?;
        let progress = Path::new("/p/.ekiden/PROGRESS.md");
        let text = format!("session {number}");
        replace(&**disk, progress, text.as_bytes(), Durability::Whole)?;
    }
    Ok(())
}

/// Goes on with the run, or begins one. A run that was not begun to its end may be there or not.
fn open_run(
    state: &LockedStateDir,
    promised: &mut Promised,
    life: u64,
) -> Outcome<(RunId, LogWriter<Note>, Vec<MessageId>)> {
    let runs = state.view().runs()?;
    let Some(run) = promised.run.clone().or_else(|| runs.first().cloned()) else {
        let run = RunId::from_bits(u32::try_from(life)?);
        let log = state.create_run(
            &run,
            &Note {
                seq: 1,
                answers: None,
            },
        )?;
        promised.run = Some(run.clone());
        promised.records = 1;
        return Ok((run, log, Vec::new()));
    };
    assert!(runs.contains(&run), "the run is lost");
    let mut answered = Vec::new();
    let log = state.open_log(&run, |note: Note| answered.extend(note.answers))?;
    let records = log.next_seq() - 1;
    assert!(
        records >= promised.records,
        "{records} of {} records",
        promised.records
    );
    promised.run = Some(run.clone());
    promised.records = records;
    Ok((run, log, answered))
}

fn archive(disk: &SimDisk, run: &RunId, number: u32, promised: &mut Promised) -> Outcome {
    let content = prompt(number);
    let text = String::from_utf8_lossy(&content);
    let files = [(SessionLayout::PROMPT, &*text)];
    archive_dir(disk, session(run, number).dir(), &files)?;
    promised.archived.insert(number, content);
    Ok(())
}

/// Records a message. Whoever sent it is told when it is in the log.
fn answer(
    id: &str,
    log: &mut LogWriter<Note>,
    answered: &mut Vec<MessageId>,
    promised: &mut Promised,
) -> Outcome {
    let id = MessageId::try_from(id.to_owned())?;
    assert!(!answered.contains(&id), "message {id} comes once");
    log.append(&Note {
        seq: log.next_seq(),
        answers: Some(id.clone()),
    })?;
    promised.records += 1;
    promised.told.push(id.clone());
    answered.push(id);
    Ok(())
}

/// What must hold on every disk that is found after a crash.
fn check(disk: &SimDisk, promised: &Promised) {
    let exclude = disk
        .read(Path::new(EXCLUDE), 1000)
        .expect("the exclude file");
    assert!(exclude.starts_with(b"*.log"), "a foreign line is lost");
    if let Ok(progress) = disk.read(Path::new("/p/.ekiden/PROGRESS.md"), 1000) {
        assert!(
            progress.starts_with(b"session ") && progress.len() == 9,
            "{progress:?}"
        );
    }
    let Some(run) = &promised.run else { return };
    for (number, content) in &promised.archived {
        assert_eq!(
            &disk
                .read(&session(run, *number).prompt(), 1000)
                .expect("an archive"),
            content
        );
    }
    let log = read_log::<Note>(disk, &layout().run(run).log()).expect("the log");
    let answered: Vec<_> = log
        .filter_map(|note| note.expect("a record").answers)
        .collect();
    let once: BTreeSet<_> = answered.iter().collect();
    assert_eq!(once.len(), answered.len(), "a message was answered twice");
    for id in &promised.told {
        assert!(once.contains(id), "message {id} is lost");
    }
}

fn start() -> SimDisk {
    let disk = SimDisk::new().fenced(Path::new("/p"));
    disk.plant_file(Path::new(EXCLUDE), b"*.log");
    disk
}

/// How many operations an undisturbed life has: crashes are spread over a little more.
fn ops_of_a_life() -> u64 {
    let disk = Arc::new(start());
    live(&disk, &mut Promised::default(), 0).expect("an undisturbed life");
    disk.ops()
}

// shows: DUR-02
#[test]
fn seeded_worlds_keep_what_was_promised() {
    let ops = ops_of_a_life();
    for seed in 0..WORLDS {
        let told = std::panic::catch_unwind(|| world(seed, ops));
        assert!(told.is_ok(), "the world of seed {seed} broke a promise");
    }
}

fn world(seed: u64, ops: u64) {
    let mut promised = Promised::default();
    let mut disk = start();
    for life in 0..LIVES {
        // Steps without a common divisor with the number of operations reach all of them.
        let chance = seed
            .wrapping_mul(7919)
            .wrapping_add(life.wrapping_mul(104_729));
        let at = if chance.is_multiple_of(2) {
            AtCrash::Done
        } else {
            AtCrash::NotDone
        };
        let machine = Arc::new(disk);
        machine.crash_at(chance % (ops + 8), at);
        if let Err(error) = live(&machine, &mut promised, life) {
            assert!(machine.has_crashed(), "seed {seed}: {error}");
        }
        disk = if chance.is_multiple_of(3) {
            machine.after_kill()
        } else {
            machine.survive_seeded(chance)
        };
        check(&disk, &promised);
    }
}
