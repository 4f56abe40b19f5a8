//! A plan that another program executed in part: which stages it finished.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ekiden_core::hash::sha256_hex;
use ekiden_core::ids::StageId;
use ekiden_core::manifest::{Manifest, Take};
use ekiden_core::settings::{Imported, StageUsage};
use ekiden_core::time::Millis;
use ekiden_manifest::made_id;
use serde_json::{Map, Value};

use super::source::Source;
use super::{Became, Conversion};
use crate::failure::Failure;

const CASM: &str = ".casm";
const CLEAVE: &str = ".cleave";
/// The manifest and the state of each program that has plans, with its word for a finished stage.
const PLANS: [(&str, &str, &str, &str); 2] = [
    (CASM, "manifest.json", "state.json", "completed"),
    (CLEAVE, "pipeline.yaml", "pipeline_state.json", "complete"),
];

/// Where CASM keeps what its sessions pass on.
const HANDOFFS: &str = ".casm/handoffs";
/// What a relay leaves to its next session, in the order in which it is to be read.
const LEFT: [&str; 3] = ["KNOWLEDGE.md", "PROGRESS.md", "NEXT_PROMPT.md"];

#[derive(Debug)]
pub struct Begun {
    pub manifest: PathBuf,
    pub done: Done,
    /// Stages that its state names.
    pub stages: usize,
}

#[derive(Debug)]
pub struct Done {
    /// Finished stages: their ids here, and their names there.
    pub stages: BTreeMap<String, String>,
    /// What finished stages of CASM passed on: files from the project's directory, named
    /// `<stage>-<title>.md`.
    pub handoffs: Vec<String>,
    /// What stages of a cleave pipeline learned, for the stages after them.
    pub knowledge: Option<String>,
    /// What an unfinished stage of a cleave pipeline left to its next session, by the stage's id.
    pub left: BTreeMap<String, Vec<String>>,
    pub imported: Imported,
}

/// The plans in a project that were begun, and half of one that cannot be imported.
pub fn begun(source: &Source) -> Result<(Vec<Begun>, Vec<Conversion>), Failure> {
    let (mut plans, mut conversions) = (Vec::new(), Vec::new());
    for (dir, manifest, state, done) in PLANS {
        let (manifest, state) = (format!("{dir}/{manifest}"), format!("{dir}/{state}"));
        let (text, stages) = (source.text(&manifest)?, source.object(&state)?);
        let (text, state) = match (text, stages) {
            (Some(text), Some(state)) => (text, state),
            (Some(_), None) => {
                let why = format!("nothing of it was begun; `ekiden execute {manifest}` does it");
                conversions.push(Conversion::new(manifest, Became::Nothing(why)));
                continue;
            }
            (None, Some(_)) => {
                let why = format!("its plan is missing; put {manifest} back, and import again");
                conversions.push(Conversion::new(state, Became::Nothing(why)));
                continue;
            }
            (None, None) => continue,
        };
        let stages = state.get("sessions").or_else(|| state.get("stages"));
        let Some(stages) = stages.and_then(Value::as_object) else {
            continue;
        };
        let names = finished(dir, &text, stages, done);
        let (mut handoffs, mut left) = (Vec::new(), BTreeMap::new());
        if dir == CASM {
            handoffs = all_handoffs(source)?;
        } else {
            for name in stages.keys().filter(|name| !names.contains(*name)) {
                left.insert(id_of(name), left_by(source, name)?);
            }
        }
        let shared = format!("{dir}/shared/KNOWLEDGE.md");
        let of = format!("{text}\0{names:?}");
        let finished = stages.iter().filter(|(name, _)| names.contains(*name));
        let took = finished.filter_map(took).collect();
        plans.push(Begun {
            manifest: source.dir.join(manifest),
            stages: stages.len(),
            done: Done {
                stages: names.into_iter().map(|name| (id_of(&name), name)).collect(),
                handoffs,
                knowledge: source.text(&shared)?.map(|_| shared),
                left,
                imported: Imported {
                    from: dir.to_owned(),
                    hash: sha256_hex(of.as_bytes()),
                    sessions: Vec::new(),
                    stages: took,
                },
            },
        });
    }
    Ok((plans, conversions))
}

/// The stages that are done. `casm execute --from` calls everything before that stage skipped, as it calls what needs a
/// stage that failed.
fn finished(
    dir: &str,
    manifest: &str,
    stages: &Map<String, Value>,
    done: &str,
) -> BTreeSet<String> {
    let of_status = |status: &str| {
        let is_it = |stage: &Value| stage.get("status").unwrap_or(stage) == status;
        let of = stages.iter().filter(move |(_, stage)| is_it(stage));
        of.map(|(name, _)| name.clone()).collect::<BTreeSet<_>>()
    };
    let mut finished = of_status(done);
    if dir != CASM {
        return finished;
    }
    let manifest: Value = serde_json::from_str(manifest).unwrap_or_default();
    let sessions = manifest["sessions"].as_array().into_iter().flatten();
    let sessions: Vec<&Value> = sessions.collect();
    let skipped = of_status("skipped");
    finished.extend(skipped.iter().cloned());
    loop {
        let lacks = |session: &&&Value| {
            let mut needs = session["depends_on"].as_array().into_iter().flatten();
            needs.any(|need| !need.as_str().is_some_and(|need| finished.contains(need)))
        };
        let lacking = sessions.iter().filter(lacks);
        let names = lacking.filter_map(|session| session["id"].as_str());
        let undone = |name: &&str| skipped.contains(*name) && finished.contains(*name);
        let Some(undone) = names.filter(undone).map(str::to_owned).next() else {
            return finished;
        };
        finished.remove(&undone);
    }
}

/// The id that a stage of this name has here.
fn id_of(name: &str) -> String {
    made_id(name).unwrap_or_else(|| name.to_owned())
}

/// What a stage of cleave left to its next session.
fn left_by(source: &Source, name: &str) -> Result<Vec<String>, Failure> {
    let mut left = Vec::new();
    if is_plain(name) && !name.starts_with('.') {
        for file in LEFT {
            let file = format!("{CLEAVE}/stages/{name}/{file}");
            left.extend(source.text(&file)?.map(|_| file));
        }
    }
    Ok(left)
}

/// How long a finished session took according to CASM.
fn took((id, stage): (&String, &Value)) -> Option<(StageId, StageUsage)> {
    let result = stage.get("result")?;
    let figure = |name: &str| result.get(name).and_then(Value::as_u64).unwrap_or(0);
    let took = StageUsage {
        tokens: figure("tokensUsed"),
        time: Millis(figure("duration")),
    };
    let id = StageId::try_from(id_of(id)).ok()?;
    (took != StageUsage::default()).then_some((id, took))
}

/// It cannot be a pattern: the list of what a stage is shown may hold patterns.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
    name.chars().all(is_plain)
}

fn all_handoffs(source: &Source) -> Result<Vec<String>, Failure> {
    let names = source.names(HANDOFFS)?.into_iter();
    let named = names.filter(|name| name.ends_with(".md") && is_plain(name));
    Ok(named.map(|name| format!("{HANDOFFS}/{name}")).collect())
}

impl Done {
    /// Marks finished stages, so that their validation has to confirm them. A stage without a validation is
    /// done again. A stage is shown what the stages that it needs passed on, and what its own sessions left.
    pub fn mark(&self, manifest: &mut Manifest) {
        for stage in &mut manifest.stages {
            let needs = stage.part.needs.iter().map(|need| need.stage.as_str());
            let names = needs.filter_map(|need| self.stages.get(need));
            let of = names.map(|name| format!("{HANDOFFS}/{name}-"));
            let of = of.flat_map(|of| {
                self.handoffs
                    .iter()
                    .filter(move |name| name.starts_with(&of))
            });
            stage.part.context.extend(of.cloned());
            if !stage.part.knowledge_apart {
                stage.part.context.extend(self.knowledge.clone());
            }
            let left = self.left.get(stage.id.as_str());
            stage
                .part
                .context
                .extend(left.into_iter().flatten().cloned());
        }
        for stage in &mut manifest.stages {
            if self.stages.contains_key(stage.id.as_str()) && stage.verification.is_some() {
                stage.part.take = Take::Assume;
            }
        }
    }
}
