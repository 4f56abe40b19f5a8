//! The manifest of a document that was split into shards.

use ekiden_core::shard::{Shard, Shards};
use ekiden_core::text::one_line;
use serde::Serialize;

use crate::own::VERSION;

/// The project's name, in characters.
const NAME_CHARS_MAX: usize = 100;

/// A manifest in TOML, and the files that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardPlan {
    pub manifest: String,
    /// Parts that are too long for a task: the path from the work dir, and the text.
    pub files: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Manifest {
    format: i64,
    project: String,
    description: String,
    stage: Vec<Stage>,
}

#[derive(Serialize)]
struct Stage {
    id: String,
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    context: Vec<String>,
    estimate_tokens: u64,
    prompt: String,
}

/// The plan of `document`, whose text this is. `parts_dir` is where long parts go, from the work dir.
pub fn shard_plan(shards: &Shards, text: &str, document: &str, parts_dir: &str) -> ShardPlan {
    let document = one_line(document, NAME_CHARS_MAX);
    let mut files = Vec::new();
    let stage = |(place, shard): (usize, &Shard)| {
        let path = format!("{parts_dir}/{}.md", shard.id);
        let told = shards.prompt(text, place, &document, &path);
        let context = told.file.is_some().then(|| path.clone());
        files.extend(told.file.map(|text| (path, text)));
        Stage {
            id: shard.id.clone(),
            name: shard.title.clone(),
            description: shard.needs_in_words(),
            needs: shard.needs.iter().map(|need| need.id.clone()).collect(),
            context: context.into_iter().collect(),
            estimate_tokens: shard.estimate.tokens,
            prompt: told.text,
        }
    };
    let stage = shards.shards.iter().enumerate().map(stage).collect();
    let manifest = Manifest {
        format: VERSION,
        description: format!("Parts of {document}, made by ekiden."),
        project: document,
        stage,
    };
    let manifest = toml::to_string_pretty(&manifest).expect("strings, numbers and tables are TOML");
    ShardPlan { manifest, files }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ekiden_core::shard::{Spec, Split};
    use ekiden_core::text::clean;
    use proptest::prelude::*;

    use super::*;
    use crate::{Defaults, Syntax, TextAlone, read};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        // shows: SHD-001
        #[test]
        fn whatever_is_split_is_a_manifest(
            sections in proptest::collection::vec(("[^\\p{C}]{0,20}", "(.|\n){0,80}", 0usize..60), 1..5),
            name in ".{0,20}",
        ) {
            let section = |(title, words, times): &(String, String, usize)| format!("## {title}\n\n{words}\n\n{}\n", "- [ ] do it\n".repeat(*times));
            let text = format!("# T\n\n{}", sections.iter().map(section).collect::<String>());
            let spec = Spec { text: &text, file_bytes: &BTreeMap::new(), window_tokens: 100_000 };
            let shards = Shards::of(&spec, Split::Max(30));
            let plan = shard_plan(&shards, &text, &format!("docs/{name}"), "plan.parts");
            let document = read(&plan.manifest, Syntax::Toml, &Defaults::default(), &mut TextAlone);
            let document = document.map_err(|faults| TestCaseError::fail(format!("{faults}\n{}", plan.manifest)))?;
            prop_assert_eq!(document.stages.len(), shards.shards.len());
            for (stage, shard) in document.stages.iter().zip(&shards.shards) {
                let file = plan.files.iter().find(|(path, _)| path.contains(&shard.id));
                let task = clean(&text[shard.range.clone()]).text;
                let whole = file.map_or(stage.task.clone(), |(_, file)| clean(file).text);
                prop_assert!(whole.contains(task.trim_end()), "{whole}");
            }
        }
    }
}
