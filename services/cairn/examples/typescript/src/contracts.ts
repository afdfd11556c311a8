/** The contracts, as the .proto files say: loaded when the program starts, typed when it is built. */

import { fileURLToPath } from "node:url";

import * as grpc from "@grpc/grpc-js";
import * as loader from "@grpc/proto-loader";

import type { ProtoGrpcType as Memory } from "./generated/session_memory.js";
import type { ProtoGrpcType as Orchestrator } from "./generated/orchestrator.js";
import type { Status, Status__Output } from "./generated/google/rpc/Status.js";

// The same choices as of `npm run generate`, else the types would not say what comes.
const options: loader.Options = {
  longs: Number,
  enums: String,
  defaults: true,
  oneofs: true,
  json: true, // Details of errors are unpacked from google.protobuf.Any.
  includeDirs: [fileURLToPath(new URL("../proto", import.meta.url))],
};

const definition = loader.loadSync(
  [
    "cairn/orchestrator/v1/orchestrator.proto",
    "cairn/memory/v1/session_memory.proto",
    "google/rpc/status.proto",
    "google/rpc/error_details.proto",
  ],
  options,
);
const { cairn } = grpc.loadPackageDefinition(definition) as unknown as Memory & Orchestrator;

/** The methods of OrchestratorService, with the types of their requests and responses. */
export const orchestrator = cairn.orchestrator.v1.OrchestratorService.service;

/** The methods of SessionMemoryService. */
export const memory = cairn.memory.v1.SessionMemoryService.service;

const statusType = definition["google.rpc.Status"] as unknown as loader.MessageTypeDefinition<
  Status,
  Status__Output
>;

/** Reads what the trailer grpc-status-details-bin holds. */
export function decodeStatus(encoded: Buffer): Status__Output {
  return statusType.deserialize(encoded);
}
