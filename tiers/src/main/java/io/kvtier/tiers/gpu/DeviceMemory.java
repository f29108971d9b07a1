package io.kvtier.tiers.gpu;

/** What another process's device memory is opened by. */
public sealed interface DeviceMemory permits IpcHandle, PassedMemory {}
