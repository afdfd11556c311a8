/**
 * Where the token of a server is.
 *
 * Every call over TCP carries a bearer token. A server whose settings name none makes one for its port,
 * in a file that only its user can read, so programs of the same user on the same machine find it.
 */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";

/** The token for a server at `host:port`: `CAIRN_TOKEN`, or the file of a port of this machine. */
export function findToken(address: string): string | undefined {
  const given = process.env["CAIRN_TOKEN"];
  if (given) return given;
  const { hostname, port } = new URL(`http://${address}`);
  if (!/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)) return undefined;
  for (const folder of folders()) {
    try {
      // A URL leaves out the port that HTTP has by default.
      return readFileSync(join(folder, `${port || "80"}.token`), "utf8").trim();
    } catch {
      // It is not there, or not for this user.
    }
  }
  return undefined;
}

/** Where servers put these files: the folder of the user's session, or beside the store. */
function folders(): string[] {
  const runtime = process.env["XDG_RUNTIME_DIR"];
  const store = process.env["CAIRN_STORE"];
  const besideStore = store ? [dirname(store)] : foldersOfWorkspace();
  return [...(runtime ? [join(runtime, "cairn")] : []), ...besideStore];
}

/** Where the store of the current folder is: its name ends with the beginning of the path's SHA-256. */
function foldersOfWorkspace(): string[] {
  const named = process.env["XDG_STATE_HOME"] ?? "";
  const state = join(isAbsolute(named) ? named : join(homedir(), ".local/state"), "cairn");
  const digest = createHash("sha256").update(realpathSync(".")).digest("hex").slice(0, 12);
  try {
    const names = readdirSync(state).filter((name) => name.endsWith(`-${digest}`));
    return names.sort().map((name) => join(state, name));
  } catch {
    // There is no store yet.
    return [];
  }
}
