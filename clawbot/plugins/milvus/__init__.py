"""The backend `milvus`: the memory of many machines in one Milvus (Lite, standalone, cluster, Zilliz)."""
