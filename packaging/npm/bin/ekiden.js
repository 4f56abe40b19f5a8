#!/usr/bin/env node
// Runs the program of this platform, which npm has installed beside this package as an optional dependency.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const UNAVAILABLE = 69;
const platform = `${process.platform}-${process.arch}`;

function program() {
  try {
    return require.resolve(`ekiden-${platform}/bin/ekiden`);
  } catch {
    const known = Object.keys(require("../package.json").optionalDependencies);
    const own = `ekiden-${platform}`;
    console.error(
      known.includes(own)
        ? `error: npm left out the package \`${own}\`, which holds the program; \`npm install ekiden --include=optional\` installs it`
        : `error: there is no program of ekiden for ${platform}, only ${known.join(", ")}; \`cargo install\` builds one, see the README`,
    );
    process.exit(UNAVAILABLE);
  }
}

const child = spawn(program(), process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`error: cannot start ekiden: ${error.message}`);
  process.exit(UNAVAILABLE);
});
// A terminal tells ctrl-c to the whole group, the program too. A second one would mean "at once".
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
