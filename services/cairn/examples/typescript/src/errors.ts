/** What Cairn says when it says no, as one class of errors. */

import { status, type ServiceError } from "@grpc/grpc-js";
import { isAnyExtension } from "@grpc/proto-loader";

import { decodeStatus } from "./contracts.js";
import type { BadRequest__Output } from "./generated/google/rpc/BadRequest.js";
import type { ErrorInfo__Output } from "./generated/google/rpc/ErrorInfo.js";
import type { RetryInfo__Output } from "./generated/google/rpc/RetryInfo.js";

/** A field of the request, what is wrong with it, and what is allowed if that can be said. */
export interface Violation {
  readonly field: string;
  readonly problem: string;
  readonly allowed: string;
}

/**
 * A call that failed, with the details that came with the status.
 *
 * Programs decide by `code` and `reason`, which are stable. `message` and `violations` are for
 * people.
 */
export class CairnError extends Error {
  readonly code: status;
  readonly reason: string = "";
  readonly violations: readonly Violation[] = [];
  /** Milliseconds, if the server said when to ask again. */
  readonly retryAfter: number | undefined;

  constructor(cause: ServiceError) {
    super(cause.details, { cause });
    this.name = "CairnError";
    this.code = cause.code;
    for (const detail of details(cause)) {
      if (!isAnyExtension(detail)) continue;
      switch (detail["@type"]) {
        case "type.googleapis.com/google.rpc.ErrorInfo":
          this.reason = (detail as unknown as ErrorInfo__Output).reason;
          break;
        case "type.googleapis.com/google.rpc.BadRequest":
          this.violations = violations(detail as unknown as BadRequest__Output);
          break;
        case "type.googleapis.com/google.rpc.RetryInfo":
          this.retryAfter = milliseconds(detail as unknown as RetryInfo__Output);
          break;
      }
    }
  }

  /**
   * Whether the same request may get its answer later.
   *
   * A server that is being restarted gives UNAVAILABLE, or nothing at all until the deadline. Both
   * leave open whether the request was carried out. RetryInfo is the server's own word, whatever
   * the code.
   */
  get mayBeRepeated(): boolean {
    const waits = this.code === status.UNAVAILABLE || this.code === status.DEADLINE_EXCEEDED;
    return waits || this.retryAfter !== undefined;
  }

  override toString(): string {
    return `${status[this.code]} ${this.reason}: ${this.message}`;
  }
}

/** Whatever a call threw, as a CairnError if it is one; what is not the call's is thrown on. */
export function failureOf(thrown: unknown): CairnError {
  if (thrown instanceof Error && "code" in thrown && "metadata" in thrown) {
    return new CairnError(thrown as ServiceError);
  }
  throw thrown;
}

/** The details in the trailer. A status that was made on this side of the wire has none. */
function details(error: ServiceError): readonly object[] {
  const [encoded] = error.metadata.get("grpc-status-details-bin");
  return Buffer.isBuffer(encoded) ? decodeStatus(encoded).details : [];
}

function violations(bad: BadRequest__Output): Violation[] {
  return bad.fieldViolations.map(({ field, description }) => {
    const [problem = "", allowed = ""] = description.split("; allowed: ", 2);
    return { field, problem, allowed };
  });
}

function milliseconds({ retryDelay }: RetryInfo__Output): number | undefined {
  return retryDelay ? retryDelay.seconds * 1000 + retryDelay.nanos / 1e6 : undefined;
}
